import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createCallTurns } from './call-turns.ts';

type Entry = { readonly id: string; readonly tenantId: string };

/** Creates turns whose calls last until they are ended; each call takes `beginMs` to begin. */
function setup({ slots = 100, isSending = false, beginMs = 0, pacedFor = new Map<string, number>() } = {}) {
  const begun: string[] = [];
  const left = new Map<string, number>();
  const withTheirShare = new Set<string>();
  const withSurplus = new Set<string>();
  let inFlight = 0;
  const turns = createCallTurns<Entry, number>({
    next({ id, tenantId }) {
      const calls = left.get(id) ?? 0;
      if (calls === 0) return undefined;
      if (withTheirShare.has(tenantId)) return 'over_share';
      left.set(id, calls - 1);
      return calls;
    },
    begin({ id }) {
      inFlight++;
      begun.push(id);
      const until = performance.now() + beginMs;
      while (performance.now() < until);
    },
    waitOf: ({ id }) => ({ ms: pacedFor.get(id) ?? 0, isPaced: pacedFor.has(id) }),
    hasSlot: () => inFlight < slots,
    isSending: () => isSending,
    withSurplus: () => withSurplus,
    use: (calls) => [...calls].reduce((sum, [id, some]) => sum + (withSurplus.has(id) ? some : 0), 0),
  });
  function add(id: string, calls: number, tenantId = id): Entry {
    const entry = { id, tenantId };
    left.set(id, calls);
    turns.add(entry);
    return entry;
  }
  return { turns, begun, withTheirShare, withSurplus, add, end: () => inFlight-- };
}

test('entries take turns, one call each', async () => {
  const { begun, add } = setup();
  add('a', 3);
  add('b', 1);
  await nextTurn();
  expect(begun).toEqual(['a', 'b', 'a', 'a']);
});

test('one turn of the event loop begins at most 32 calls, and the next one continues', async () => {
  const { begun, add } = setup();
  add('a', 40);
  await nextTurn();
  expect(begun).toHaveLength(32);
  await expect.poll(() => begun).toHaveLength(40);
});

test('without a free slot no call begins; the next entry that is added continues', async () => {
  const { turns, begun, add, end } = setup({ slots: 1 });
  const a = add('a', 2);
  await nextTurn();
  await nextTurn();
  expect(begun).toEqual(['a']);
  end();
  turns.add(a);
  await nextTurn();
  expect(begun).toEqual(['a', 'a']);
});

test('an entry whose tenant has its share waits until a call ends, and delays no other', async () => {
  const { turns, begun, withTheirShare, add } = setup();
  withTheirShare.add('a');
  add('a', 1);
  add('b', 1);
  await nextTurn();
  expect(begun).toEqual(['b']);
  withTheirShare.clear();
  turns.slotFreed();
  await nextTurn();
  expect(begun).toEqual(['b', 'a']);
});

test('an entry that was removed is not called for', async () => {
  const { turns, begun, withTheirShare, add } = setup();
  turns.remove(add('a', 1));
  withTheirShare.add('b');
  const b = add('b', 1);
  await nextTurn();
  turns.remove(b);
  withTheirShare.clear();
  turns.slotFreed();
  await nextTurn();
  expect(begun).toEqual([]);
});

test('while messages are sent, surplus calls are followed by a rest, in which other tenants are called for', async () => {
  const { begun, withSurplus, add } = setup({ isSending: true, beginMs: 60 });
  withSurplus.add('a');
  add('a', 1);
  await nextTurn();
  add('a2', 1, 'a');
  add('b', 1);
  await nextTurn();
  expect(begun).toEqual(['a', 'b']);
  await expect.poll(() => begun).toEqual(['a', 'b', 'a2']);
});

test('late calls of an endpoint with a pace of its own need no rest, and lift that of no other call', async () => {
  const { begun, withSurplus, add } = setup({
    isSending: true,
    beginMs: 60,
    pacedFor: new Map([['late', 120_000]]),
  });
  for (const tenant of ['late', 'new']) withSurplus.add(tenant);
  const late = add('late', 2);
  await nextTurn();
  expect(begun).toEqual(['late', 'late']);
  add(late.id, 1);
  add('new', 1);
  await nextTurn();
  add('late', 1);
  await nextTurn();
  expect(begun).toEqual(['late', 'late', 'late', 'new']);
  await expect.poll(() => begun).toHaveLength(5);
});

test('while no messages are sent, surplus calls need not rest', async () => {
  const { begun, withSurplus, add } = setup({ beginMs: 20 });
  withSurplus.add('a');
  add('a', 1);
  await nextTurn();
  add('a2', 1, 'a');
  await nextTurn();
  expect(begun).toEqual(['a', 'a2']);
});
