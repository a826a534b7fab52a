import { expect, test } from 'vitest';
import { timedStore } from './timed-store.ts';

function setup<Store extends object>(operations: Store) {
  const known: string[] = [];
  const ended: [op: string, seconds: number, isFailed: boolean][] = [];
  const store = timedStore(operations, {
    known: (op) => void known.push(op),
    ended: (...end) => void ended.push(end),
  });
  return { store, known, ended };
}

test('an operation keeps its arguments and result, and its duration is reported by name', async () => {
  const { store, ended } = setup({
    holdTenant: async (tenantId: string, most: number) => tenantId.length + most,
  });
  expect(await store.holdTenant('abc', 4)).toBe(7);
  expect(ended).toEqual([['hold_tenant', expect.any(Number), false]]);
});

test('an operation that fails is reported as failed and keeps its error', async () => {
  const { store, ended } = setup({ backlogTotals: () => Promise.reject(new Error('away')) });
  await expect(store.backlogTotals()).rejects.toThrow('away');
  expect(ended).toEqual([['backlog_totals', expect.any(Number), true]]);
});

test('every operation is registered before its first call', () => {
  const { known, ended } = setup({ claim: async () => [], claimDue: async () => [] });
  expect(known).toEqual(['claim', 'claim_due']);
  expect(ended).toEqual([]);
});
