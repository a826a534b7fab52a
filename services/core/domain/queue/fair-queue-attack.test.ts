import { expect, test } from 'vitest';
import { createFairQueue, type TenantPolicy } from './fair-queue.ts';

/** One worker with the deployed settings. */
const SLOTS = 512;
const CLAIM_MAX = 128;
const TICK_MS = 5;

type Load = TenantPolicy & {
  readonly answerMs: number;
  readonly perSecond: number;
  /** When it begins, in milliseconds. Default: at once. */
  readonly fromMs?: number;
};
const ENTERPRISE = { weight: 20, inFlightMax: 256 };
const FREE = { weight: 1, inFlightMax: 50 };
/** Far more than a process that waits 14 seconds for each answer can ever send. */
const FLOOD = { answerMs: 14_000, perSecond: 1_000 };

/**
 * Simulates a worker in virtual time.
 * @returns for each tenant how long its messages waited for a slot; only messages that began.
 */
function simulate(loads: Readonly<Record<string, Load>>, forMs: number): Record<string, number[]> {
  const queue = createFairQueue<{ tenant: string; at: number }>({
    queuedPerTenantMax: 1_000,
    queuedMax: 5_000,
    slots: SLOTS,
  });
  const ends = new Map<number, string[]>();
  const offered: Record<string, number> = {};
  const waits = Object.fromEntries(Object.keys(loads).map((tenant) => [tenant, [] as number[]]));
  for (let now = 0; now < forMs; now += TICK_MS) {
    for (const tenant of ends.get(now) ?? []) queue.release(tenant);
    for (const [tenant, { perSecond, fromMs = 0, weight, inFlightMax }] of Object.entries(loads)) {
      for (let n = offered[tenant] ?? 0; n < ((now - fromMs) * perSecond) / 1_000; n++) {
        queue.offer(tenant, 1, { tenant, at: now });
        offered[tenant] = n + 1;
      }
      queue.setPolicy(tenant, { weight, inFlightMax });
    }
    while (queue.hasWork()) {
      const free = Math.min(SLOTS - queue.inFlight, CLAIM_MAX);
      if (free < 1) break;
      const turn = queue.take(free);
      for (const { tenantId, slots } of turn.due) {
        // All of the tenant's messages are in memory; the database has none.
        queue.release(tenantId, slots);
        queue.refilled(tenantId, { hasMore: false });
      }
      for (const { tenant, at } of turn.items) {
        waits[tenant]?.push(now - at);
        const end = now + (loads[tenant]?.answerMs ?? 0);
        ends.set(end, [...(ends.get(end) ?? []), tenant]);
      }
    }
  }
  return waits;
}

const tenants = (n: number, load: Load): Record<string, Load> =>
  Object.fromEntries(Array.from({ length: n }, (_, i) => [`flood ${i}`, load]));

const QUIET = { perSecond: 40, answerMs: 100, fromMs: 10_000 };

test.each<[name: string, floods: Record<string, Load>, quiet: TenantPolicy]>([
  ['two enterprise tenants', tenants(2, { ...ENTERPRISE, ...FLOOD }), ENTERPRISE],
  ['two enterprise tenants, against a free one', tenants(2, { ...ENTERPRISE, ...FLOOD }), FREE],
  ['eleven free tenants', tenants(11, { ...FREE, ...FLOOD }), FREE],
  ['forty free tenants', tenants(40, { ...FREE, ...FLOOD }), FREE],
])(
  '%s whose provider takes 14 s do not delay the 40 messages a second of another tenant',
  (_, floods, quiet) => {
    const waits = simulate({ ...floods, quiet: { ...quiet, ...QUIET } }, 40_000);
    // All messages of 30 seconds, except those of the last moment.
    expect(waits['quiet']?.length).toBeGreaterThan(1_190);
    const sorted = (waits['quiet'] ?? []).toSorted((a, b) => a - b);
    expect(sorted[Math.floor(sorted.length * 0.99)]).toBeLessThanOrEqual(50);
  },
);

test('floods that start one after another still leave slots for another tenant', () => {
  const floods = Object.fromEntries(
    Array.from({ length: 12 }, (_, i) => [`flood ${i}`, { ...ENTERPRISE, ...FLOOD, fromMs: i * 200 }]),
  );
  const waits = simulate({ ...floods, quiet: { ...FREE, ...QUIET, fromMs: 6_000 } }, 40_000);
  // For eight seconds no flood releases a slot: the tenant has only the reserve, at half of the rate.
  expect(waits['quiet']?.length).toBeGreaterThan(1_150);
  expect(Math.max(...(waits['quiet'] ?? []))).toBeLessThan(500);
});

test('slow tenants with different weights get shares in the order of their weights', () => {
  const load = { answerMs: 5_000, perSecond: 500, inFlightMax: 256 };
  const waits = simulate(
    { light: { ...load, weight: 1 }, middle: { ...load, weight: 4 }, heavy: { ...load, weight: 8 } },
    60_000,
  );
  const started = ['light', 'middle', 'heavy'].map((tenant) => waits[tenant]?.length ?? 0) as [
    number,
    number,
    number,
  ];
  expect(started[1] / started[0]).toBeGreaterThan(1.5);
  expect(started[2] / started[1]).toBeGreaterThan(1.5);
});
