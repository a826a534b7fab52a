import { expect, test } from 'vitest';
import { createSlotShares } from './slot-shares.ts';

/** Takes slots until the tenant has its share. @returns how many it took. */
function takeShare(shares: ReturnType<typeof createSlotShares>, tenantId: string): number {
  let taken = 0;
  for (; shares.hasSlot && shares.hasShare(tenantId); taken++) shares.take(tenantId);
  return taken;
}

test('a tenant leaves as many slots as it has to the next tenant', () => {
  const shares = createSlotShares(16);
  expect(takeShare(shares, 'a')).toBe(8);
  expect(shares.hasSlot).toBe(true);
  expect(takeShare(shares, 'b')).toBeGreaterThan(0);
  expect(shares.inFlight).toBeLessThanOrEqual(16);
});

test('freed slots return to the tenants that are left', () => {
  const shares = createSlotShares(16);
  const [first, second] = [takeShare(shares, 'a'), takeShare(shares, 'b')];
  expect(shares.hasShare('a')).toBe(false);
  for (let n = 0; n < second; n++) shares.free('b');
  for (let n = 0; n < first; n++) shares.free('a');
  expect(shares.inFlight).toBe(0);
  expect(takeShare(shares, 'a')).toBe(first);
});

test('no slot is left once all are taken', () => {
  const shares = createSlotShares(2);
  for (const tenant of ['a', 'b']) shares.take(tenant);
  expect([shares.hasSlot, shares.inFlight]).toEqual([false, 2]);
});
