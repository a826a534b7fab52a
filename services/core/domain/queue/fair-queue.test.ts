import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFairQueue, DEFAULT_POLICY, IDLE_POLICIES_MAX } from './fair-queue.ts';

/** More slots than any test uses. */
const SLOTS = 10_000;

describe('fair queue', () => {
  test('a tenant with a thousand queued messages does not delay another tenant', () => {
    const queue = createFairQueue<string>({ queuedPerTenantMax: 2_000, queuedMax: 100_000, slots: SLOTS });
    for (let i = 0; i < 1_000; i++) queue.offer('loud', 1, `loud-${i}`);
    queue.offer('quiet', 1, 'quiet-0');
    expect(queue.take(32).items).toContain('quiet-0');
  });

  test('shares follow the weights while all have work', () => {
    const queue = createFairQueue<string>({ queuedPerTenantMax: 10_000, queuedMax: 100_000, slots: SLOTS });
    for (let i = 0; i < 5_000; i++) {
      queue.offer('light', 1, 'light');
      queue.offer('heavy', 1, 'heavy');
    }
    queue.setPolicy('light', { weight: 1, inFlightMax: 10_000 });
    queue.setPolicy('heavy', { weight: 5, inFlightMax: 10_000 });
    const items = queue.take(960).items;
    expect(items.filter((item) => item === 'heavy').length).toBe(800);
  });

  test('no tenant has more in flight than its cap, and released slots are used again', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 1_000, queuedMax: 100_000, slots: SLOTS });
    for (let i = 0; i < 200; i++) queue.offer('a', 1, i);
    expect(queue.take(500).items).toHaveLength(DEFAULT_POLICY.inFlightMax);
    expect(queue.take(500).items).toHaveLength(0);
    queue.release('a', 10);
    expect(queue.take(500).items).toHaveLength(10);
  });

  test('a cap holds after the tenant was idle', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 1_000, queuedMax: 100_000, slots: SLOTS });
    queue.offer('a', 1, 0);
    queue.setPolicy('a', { weight: 1, inFlightMax: 2 });
    queue.take(1);
    queue.release('a');
    expect(queue.tenantIds()).toEqual([]);
    for (let i = 0; i < 100; i++) queue.offer('a', 1, i);
    expect(queue.take(500).items).toHaveLength(2);
  });

  test('a policy that arrives after the last message of its tenant holds for the next one', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 1_000, queuedMax: 100_000, slots: SLOTS });
    queue.setPolicy('a', { weight: 1, inFlightMax: 2 });
    for (let i = 0; i < 100; i++) queue.offer('a', 1, i);
    expect(queue.take(500).items).toHaveLength(2);
  });

  test('the policies of tenants without work are bounded', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 1_000, queuedMax: 100_000, slots: SLOTS });
    for (let n = 0; n <= IDLE_POLICIES_MAX; n++)
      queue.setPolicy(`tenant-${n}`, { weight: 1, inFlightMax: 2 });
    for (const [tenantId, inFlight] of [
      ['tenant-0', DEFAULT_POLICY.inFlightMax],
      ['tenant-1', 2],
    ] as const) {
      for (let i = 0; i < 100; i++) queue.offer(tenantId, 1, i);
      expect(queue.take(500).items).toHaveLength(inFlight);
    }
  });

  test('a policy is asked for when a tenant without one has work', () => {
    const asked: string[] = [];
    const queue = createFairQueue<number>({
      queuedPerTenantMax: 1_000,
      queuedMax: 100_000,
      slots: SLOTS,
      onUnknown: (tenantId) => asked.push(tenantId),
    });
    queue.offer('a', 1, 0);
    queue.offer('a', 1, 1);
    expect(asked).toEqual(['a']);
    queue.setPolicy('a', { weight: 1, inFlightMax: 2 });
    queue.take(2);
    queue.release('a', 2);
    queue.offer('a', 1, 2);
    expect(asked).toEqual(['a']);
  });

  test('high priority goes before normal before bulk', () => {
    const queue = createFairQueue<string>({ queuedPerTenantMax: 10, queuedMax: 100_000, slots: SLOTS });
    queue.offer('a', 2, 'bulk');
    queue.offer('a', 1, 'normal');
    queue.offer('a', 0, 'high');
    expect(queue.take(3).items).toEqual(['high', 'normal', 'bulk']);
  });

  test('a tenant is known while it has items, also between its calls', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 10, queuedMax: 100_000, slots: SLOTS });
    queue.offer('a', 1, 0);
    queue.offer('a', 1, 1);
    for (const known of [['a'], []]) {
      expect(queue.take(1).items).toHaveLength(1);
      queue.release('a');
      expect(queue.tenantIds()).toEqual(known);
      expect(queue.inFlight).toBe(0);
    }
  });

  test('an item with a priority out of range counts as one of the nearest', () => {
    const queue = createFairQueue<string>({ queuedPerTenantMax: 10, queuedMax: 100_000, slots: SLOTS });
    queue.offer('a', 99, 'last');
    queue.offer('a', -1, 'first');
    queue.offer('a', 1, 'normal');
    expect(queue.take(9).items).toEqual(['first', 'normal', 'last']);
  });

  test('tenants that came and went do not change the shares of others', () => {
    const shares = (gone: number) => {
      const queue = createFairQueue<string>({ queuedPerTenantMax: 500, queuedMax: 100_000, slots: 100 });
      // Each twice: the second time its policy is remembered.
      for (let n = 0; n < 2 * gone; n++) {
        const tenantId = `gone-${n % gone}`;
        queue.offer(tenantId, 1, tenantId);
        queue.setPolicy(tenantId, { weight: 1 + (n % gone), inFlightMax: 10 });
        queue.take(1);
        queue.release(tenantId);
      }
      for (const [tenantId, weight] of [
        ['light', 1],
        ['heavy', 3],
      ] as const) {
        queue.setPolicy(tenantId, { weight, inFlightMax: 100 });
        for (let i = 0; i < 200; i++) queue.offer(tenantId, 1, tenantId);
      }
      const { items } = queue.take(100);
      return [items.filter((one) => one === 'light').length, items.filter((one) => one === 'heavy').length];
    };
    expect(shares(20)).toEqual(shares(0));
  });

  test('a tenant gets no refill before its items in memory are taken', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 10, queuedMax: 100_000, slots: SLOTS });
    for (let i = 0; i < 11; i++) queue.offer('a', 1, i);
    expect(queue.take(8)).toMatchObject({ items: [0, 1, 2, 3, 4, 5, 6, 7], due: [] });
    expect(queue.take(8)).toEqual({ items: [8, 9], due: [{ tenantId: 'a', slots: 6 }] });
  });

  test('a tenant whose items do not fit in memory gets one refill for all free slots', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 2, queuedMax: 100_000, slots: SLOTS });
    expect([queue.offer('a', 1, 1), queue.offer('a', 1, 2), queue.offer('a', 1, 3)]).toEqual([
      true,
      true,
      false,
    ]);
    const turn = queue.take(40);
    expect(turn.items).toEqual([1, 2]);
    expect(turn.due).toEqual([{ tenantId: 'a', slots: 38 }]);
  });

  test('a nearly full queue still accepts items of tenants that have few', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 50, queuedMax: 100, slots: SLOTS });
    for (let i = 0; i < 100; i++) queue.offer(`loud-${i % 2}`, 1, i);
    expect(queue.offer('loud-0', 1, 0)).toBe(false);
    expect(queue.offer('loud-2', 1, 0)).toBe(true);
    for (let i = 0; i < 8; i++) queue.offer('loud-2', 1, i);
    expect(queue.offer('loud-2', 1, 9)).toBe(false);
    expect(queue.offer('quiet', 1, 0)).toBe(true);
  });

  test('a tenant whose refill found nothing gets no further refill', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 2, queuedMax: 100_000, slots: SLOTS });
    for (const isReleasedFirst of [true, false]) {
      queue.markDue('a');
      expect(queue.tenantIds()).toEqual(['a']);
      expect(queue.take(10).due).toHaveLength(1);
      if (isReleasedFirst) queue.release('a', 10);
      queue.refilled('a', { hasMore: false });
      if (!isReleasedFirst) queue.release('a', 10);
      expect(queue.hasWork()).toBe(false);
      expect(queue.tenantIds()).toEqual([]);
    }
  });

  test('a tenant has one refill at a time, and another one if the last found more', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 2, queuedMax: 100_000, slots: SLOTS });
    queue.markDue('a');
    expect(queue.take(10).due).toHaveLength(1);
    expect(queue.take(10).due).toHaveLength(0);
    queue.refilled('a', { hasMore: true });
    expect(queue.take(10).due).toHaveLength(1);
  });

  test('a tenant marked as due during a refill gets another refill', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 2, queuedMax: 100_000, slots: SLOTS });
    queue.markDue('a');
    queue.take(10);
    queue.markDue('a');
    queue.refilled('a', { hasMore: false });
    queue.release('a', 10);
    expect(queue.take(10).due).toEqual([{ tenantId: 'a', slots: 10 }]);
    queue.refilled('a', { hasMore: false });
    expect(queue.take(10).due).toEqual([]);
  });

  test('many tenants with due work share the slots evenly, with few refills', () => {
    const queue = createFairQueue<number>({ queuedPerTenantMax: 10, queuedMax: 1_000, slots: 1_000 });
    const granted = new Map<string, number>();
    for (let i = 0; i < 10; i++) queue.markDue(`t${i}`);
    let refills = 0;
    for (let turn = 0; turn < 40; turn++) {
      for (const { tenantId, slots } of queue.take(80).due) {
        refills += 1;
        granted.set(tenantId, (granted.get(tenantId) ?? 0) + slots);
        queue.release(tenantId, slots);
        queue.refilled(tenantId, { hasMore: true });
      }
    }
    expect(refills).toBeLessThan(160);
    for (const slots of granted.values()) expect(Math.abs(slots - 320)).toBeLessThanOrEqual(32);
    expect(granted.size).toBe(10);
  });

  test('in any order of calls, every item comes out once and the counts are correct', () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ do: fc.constant('offer' as const), tenant: fc.nat(4), priority: fc.nat(2) }),
        fc.record({ do: fc.constant('take' as const), slots: fc.nat(20) }),
        fc.record({ do: fc.constant('release' as const) }),
      ),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(steps, (sequence) => {
        const queue = createFairQueue<{ n: number; tenant: string }>({
          queuedPerTenantMax: 1_000,
          queuedMax: 100_000,
          slots: 64,
        });
        let offered = 0;
        const out: { n: number; tenant: string }[] = [];
        const flying: string[] = [];
        for (const step of sequence) {
          if (step.do === 'offer')
            queue.offer(`t${step.tenant}`, step.priority, { n: offered++, tenant: `t${step.tenant}` });
          if (step.do === 'take') {
            const { items } = queue.take(step.slots);
            expect(items.length).toBeLessThanOrEqual(step.slots);
            out.push(...items);
            flying.push(...items.map((item) => item.tenant));
          }
          if (step.do === 'release' && flying.length > 0) queue.release(flying.pop() ?? '');
          // Otherwise a caller that loops while there is work would never end.
          const hadWork = queue.hasWork();
          const { items } = queue.take(1);
          expect(items.length > 0).toBe(hadWork);
          out.push(...items);
          flying.push(...items.map((item) => item.tenant));
          expect(flying.length).toBeLessThanOrEqual(64);
        }
        expect(queue.inFlight).toBe(flying.length);
        for (let left = queue.queued; left > 0; left = queue.queued) {
          for (const tenant of flying.splice(0)) queue.release(tenant);
          const { items } = queue.take(1_000);
          out.push(...items);
          flying.push(...items.map((item) => item.tenant));
        }
        expect(new Set(out.map((item) => item.n)).size).toBe(offered);
        expect(out).toHaveLength(offered);
      }),
    );
  });
});
