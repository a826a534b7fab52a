import { expect, test } from 'vitest';
import { createBehindLooks } from './behind-looks.ts';

/** Creates looks at a database with two endpoints, of tenants `a` and `b`, one per query. */
function setup() {
  const s = {
    now: 0,
    /** Duration of a query over all endpoints. */
    tookMs: 10,
    pass: 1,
    isWhole: true,
    behind: [] as string[],
    isAway: false,
    asked: [] as string[],
    found: [] as string[],
  };
  const look = createBehindLooks({
    store: {
      tenantsBehind: async (after, among) => {
        s.asked.push(`since ${after} ${among.join()}`.trim());
        return { tenantIds: s.behind, newestPass: s.pass, isWhole: s.isWhole && after !== null };
      },
      endpointsBehind: async (after) => {
        if (s.isAway) throw new Error('Postgres is away');
        s.asked.push(`all after ${after}`);
        s.now += s.tookMs;
        return after === null ? { tenantIds: ['a'], next: 'a' } : { tenantIds: ['b'], next: null };
      },
    },
    onBehind: (ids) => void s.found.push(...ids),
    isStopping: () => false,
    monotonicMs: () => s.now,
  });
  return Object.assign(s, { look });
}
const ALL = ['all after null', 'all after a'];

test('the first scan covers all endpoints, the next ones those with new events', async () => {
  const s = setup();
  await s.look();
  expect(s.asked).toEqual(['since null', ...ALL]);
  expect(s.found).toEqual(['a', 'b']);
  s.behind = ['c'];
  s.pass = 2;
  await s.look();
  s.behind = [];
  await s.look();
  expect(s.asked.slice(3)).toEqual(['since 1', 'since 2 c']);
  expect(s.found).toEqual(['a', 'b', 'c']);
});

test('full scans take a fiftieth of the time, and follow when passes were missed', async () => {
  const s = setup();
  await s.look();
  s.now += 999;
  await s.look();
  expect(s.asked.splice(0)).toEqual(['since null', ...ALL, 'since 1']);
  s.now += 1;
  await s.look();
  expect(s.asked.splice(0)).toEqual(['since 1', ...ALL]);
  s.isWhole = false;
  await s.look();
  expect(s.asked).toEqual(['since 1', ...ALL]);
});

test('a failed full scan is repeated by the next scan', async () => {
  const s = setup();
  s.isAway = true;
  await expect(s.look()).rejects.toThrow('Postgres is away');
  s.isAway = false;
  await s.look();
  expect(s.asked).toEqual(['since null', 'since null', ...ALL]);
});
