import { expect, test } from 'vitest';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import { timedStore } from './timed-store.ts';

function setup(operations: Partial<DeliveryStore>) {
  const observed: [op: string, seconds: number][] = [];
  const store = timedStore(operations as DeliveryStore, (op, seconds) => void observed.push([op, seconds]));
  return { store, observed };
}

test('an operation keeps its arguments and its result, and its duration is told under a bounded name', async () => {
  const { store, observed } = setup({ holdTenant: async (tenantId, most) => tenantId.length + most });
  expect(await store.holdTenant('abc', 4)).toBe(7);
  expect(observed).toEqual([['hold_tenant', expect.any(Number)]]);
});

test('an operation that fails is told too, and fails as before', async () => {
  const { store, observed } = setup({ backlogTotals: () => Promise.reject(new Error('away')) });
  await expect(store.backlogTotals()).rejects.toThrow('away');
  expect(observed).toEqual([['backlog_totals', expect.any(Number)]]);
});
