import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createSharedSlots } from './shared-slots.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const never = new AbortController().signal;

function setup() {
  const shared = createSharedSlots({ slots: 4, waitingPerOwnerMax: 3, waitingMax: 5, waitMsMax: 1_000 });
  const entered: string[] = [];
  const refused: string[] = [];
  const leaves = new Map<string, () => void>();
  /** Requests a slot for the owner named by the item's first letter. */
  const ask = (item: string, gone: AbortSignal = never): void => {
    shared.take(item.slice(0, 1), gone).then(
      (leave) => {
        entered.push(item);
        leaves.set(item, leave);
      },
      (error: { code: string }) => void refused.push(`${item} ${error.code}`),
    );
  };
  const leave = (item: string): void => leaves.get(item)?.();
  const settled = () => vi.advanceTimersByTimeAsync(0);
  return { entered, refused, ask, leave, settled };
}

test('an owner holds at most half of the slots, and waiting requests enter in turn', async () => {
  const { entered, refused, ask, leave, settled } = setup();
  for (const item of ['a1', 'a2', 'a3', 'a4', 'b1', 'c1', 'c2']) ask(item);
  await settled();
  expect(entered).toEqual(['a1', 'a2', 'b1', 'c1']);
  leave('b1');
  await settled();
  // One of the two waiting owners already holds its half.
  expect(entered.slice(4)).toEqual(['c2']);
  leave('a1');
  leave('a1');
  await settled();
  expect(entered.slice(5)).toEqual(['a3']);
  expect(refused).toEqual([]);
});

test('requests beyond the waiting limits per owner and in total are refused', async () => {
  const { entered, refused, ask, settled } = setup();
  for (const item of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6']) ask(item);
  await settled();
  expect(refused).toEqual(['a6 dependency_unavailable']);
  for (const item of ['b1', 'b2', 'b3', 'b4', 'c1', 'd1']) ask(item);
  await settled();
  expect(entered).toEqual(['a1', 'a2', 'b1', 'b2']);
  // The last free place is not for those who wait already.
  expect(refused.slice(1)).toEqual(['b4 dependency_unavailable', 'd1 dependency_unavailable']);
});

test('a request waits at most waitMsMax, and an aborted request takes no slot', async () => {
  const { entered, refused, ask, leave, settled } = setup();
  const going = new AbortController();
  for (const item of ['a1', 'a2', 'a3']) ask(item);
  ask('a4', going.signal);
  going.abort();
  await settled();
  ask('a5', going.signal);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(refused).toEqual(['a4 validation_failed', 'a5 validation_failed', 'a3 dependency_unavailable']);
  for (const item of ['a1', 'a2']) leave(item);
  for (const item of ['a6', 'a7', 'a8']) ask(item);
  await settled();
  expect(entered).toEqual(['a1', 'a2', 'a6', 'a7']);
});
