import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { slotsLeftTo, type Holding, type Shared } from './fair-share.ts';

const SLOTS = 512;
const worker = (taken: number, tenants: number, weights = tenants): Shared => ({
  slots: SLOTS,
  taken,
  tenants,
  weights,
});
const holding = (held: number, weight = 1, heldMax = SLOTS): Holding => ({ held, heldMax, weight });

test('a single tenant gets the slots of its plan, up to half of the process', () => {
  expect(slotsLeftTo(holding(0, 1, 250), worker(0, 1))).toBe(250);
  expect(slotsLeftTo(holding(200, 1, 250), worker(200, 1))).toBe(50);
  expect(slotsLeftTo(holding(200, 1, 1_000), worker(200, 1))).toBe(56);
  expect(slotsLeftTo(holding(0), { slots: 1, taken: 0, tenants: 1, weights: 1 })).toBe(1);
});

test.each([2, 3, 11, 50])('%i equal tenants that want all slots leave as many free as each holds', (n) => {
  const held = Array.from({ length: n }, () => 0);
  for (let moved = true; moved;) {
    moved = false;
    for (const [i, own] of held.entries()) {
      const taken = held.reduce((sum, one) => sum + one, 0);
      if (slotsLeftTo(holding(own), worker(taken, n)) === 0) continue;
      held[i] = own + 1;
      moved = true;
    }
  }
  const free = SLOTS - held.reduce((sum, one) => sum + one, 0);
  expect(Math.max(...held) - Math.min(...held)).toBeLessThanOrEqual(1);
  expect(free).toBeGreaterThanOrEqual(Math.min(...held));
  expect(free).toBeGreaterThanOrEqual(SLOTS / 16);
});

test('a tenant with few slots may use the reserve, and one with none may use the last slot', () => {
  expect(slotsLeftTo(holding(40), worker(SLOTS - 32, 12))).toBe(0);
  expect(slotsLeftTo(holding(1), worker(SLOTS - 32, 12))).toBe(3);
  expect(slotsLeftTo(holding(1), worker(SLOTS - 1, 12))).toBe(0);
  expect(slotsLeftTo(holding(0), worker(SLOTS - 1, 12))).toBe(1);
});

const STATES = fc
  .record({
    slots: fc.integer({ min: 1, max: 2_000 }),
    taken: fc.nat(2_000),
    held: fc.nat(2_000),
    heldMax: fc.nat(2_000),
    weight: fc.integer({ min: 1, max: 100 }),
    others: fc.array(fc.integer({ min: 1, max: 100 }), { maxLength: 50 }),
  })
  .map(({ slots, taken, held, heldMax, weight, others }) => ({
    tenant: { held, heldMax, weight },
    shared: {
      slots,
      taken: Math.max(taken, held),
      tenants: others.length + 1,
      weights: others.reduce((sum, one) => sum + one, weight),
    },
  }));

test('a tenant gets at most what is free and its plan allows, and at least one slot if it has none', () => {
  fc.assert(
    fc.property(STATES, ({ tenant, shared }) => {
      const left = slotsLeftTo(tenant, shared);
      const most = Math.min(tenant.heldMax - tenant.held, shared.slots - shared.taken);
      expect(Number.isInteger(left)).toBe(true);
      expect(left).toBeGreaterThanOrEqual(0);
      expect(left).toBeLessThanOrEqual(Math.max(0, most));
      if (tenant.held === 0 && most > 0) expect(left).toBeGreaterThan(0);
    }),
  );
});

test('more taken slots never raise the share of a tenant, and more weight never lowers it', () => {
  fc.assert(
    fc.property(STATES, fc.nat(500), fc.nat(50), ({ tenant, shared }, more, heavier) => {
      const left = slotsLeftTo(tenant, shared);
      expect(slotsLeftTo(tenant, { ...shared, taken: shared.taken + more })).toBeLessThanOrEqual(left);
      expect(
        slotsLeftTo(
          { ...tenant, weight: tenant.weight + heavier },
          { ...shared, weights: shared.weights + heavier },
        ),
      ).toBeGreaterThanOrEqual(left);
    }),
  );
});
