import { expect, test } from 'vitest';
import type { DueRow, EarlierLook } from '#core/store/sending/lane.ts';
import { createDueLooks } from './due-looks.ts';

const LANE = { tenantId: 't', accountId: 'a' };
const LOOKED = 1_000_000;

const due = (ageMs: number, more: object = {}): DueRow => ({
  task: 'due',
  ...LANE,
  priority: 1,
  dueAt: new Date(LOOKED - ageMs),
  isActive: true,
  isSlowed: false,
  ...more,
});

/** Creates looks over a store with fixed answers; a full look takes `tookMs`. */
function setup(tookMs: number) {
  const asked: (EarlierLook | undefined)[] = [];
  const state = { now: 0, looked: LOOKED, rows: [] as DueRow[] };
  const looks = createDueLooks({
    store: {
      dueLanes(earlier) {
        asked.push(earlier);
        state.now += earlier === undefined ? tookMs : 1;
        return Promise.resolve([...state.rows, { task: 'looked', dueAt: new Date(state.looked) }]);
      },
    },
    monotonicMs: () => state.now,
  });
  return { looks, asked, state };
}

test('every scan is a full one while full scans are fast', async () => {
  const { looks, asked, state } = setup(10);
  for (let i = 0; i < 5; i += 1) {
    await looks.dueLanes();
    state.now += 1_000;
  }
  expect(asked).toEqual(Array.from({ length: 5 }, () => undefined));
});

test('slow full scans take a fiftieth of the time; others cover newly due messages only', async () => {
  const { looks, asked, state } = setup(300);
  const isFull: boolean[] = [];
  for (let i = 0; i < 40; i += 1) {
    await looks.dueLanes();
    state.now += 1_000;
    isFull.push(asked.at(-1) === undefined);
  }
  expect(isFull.filter(Boolean)).toHaveLength(3);
  expect(isFull[0]).toBe(true);
});

test("a partial scan starts five seconds before the last, or at a lane's oldest due message", async () => {
  const { looks, asked, state } = setup(300);
  const older = [due(60_000), due(20_000, { priority: 0 }), due(30_000, { priority: 2 })];
  state.rows = [...older, due(1_000, { accountId: 'fresh' })];
  const found = await looks.dueLanes();
  expect(found).toEqual([
    { task: 'due', ...LANE, oldestDue: new Date(LOOKED - 60_000), isSlowed: false },
    { task: 'due', tenantId: 't', accountId: 'fresh', oldestDue: new Date(LOOKED - 1_000), isSlowed: false },
  ]);
  expect(looks.lookedAt()).toBe(LOOKED);
  const after = LOOKED - 5_000;
  expect(looks.dueFrom(LANE)).toEqual([LOOKED - 20_000, LOOKED - 60_000, LOOKED - 30_000]);
  expect(looks.dueFrom({ tenantId: 't', accountId: 'fresh' })).toEqual([after, after, after]);
  state.rows = [];
  await looks.dueLanes();
  const dueFrom = [LOOKED - 20_000, LOOKED - 60_000, LOOKED - 30_000, after, after, after];
  expect(asked).toEqual([undefined, { after: new Date(after), older: [{ ...LANE, dueFrom }] }]);
  // No message is due there any more.
  expect(looks.dueFrom(LANE)).toEqual([after, after, after]);
});

test('before the first successful scan, a search has no lower bound', async () => {
  const looks = createDueLooks({
    store: { dueLanes: () => Promise.reject(new Error('away')) },
    monotonicMs: () => 0,
  });
  expect(looks.dueFrom(LANE)).toBeUndefined();
  await expect(looks.dueLanes()).rejects.toThrow('away');
  expect(looks.dueFrom(LANE)).toBeUndefined();
});

test('a suspended tenant is held once, and all its lanes are reviewed and scanned again', async () => {
  const { looks, asked, state } = setup(300);
  state.rows = [
    due(60_000, { isActive: false }),
    due(60_000, { isActive: false, accountId: 'b' }),
    { task: 'release', tenantId: 'r' },
  ];
  expect(await looks.dueLanes()).toEqual([
    { task: 'review', tenantId: 't', accountId: 'a' },
    { task: 'review', tenantId: 't', accountId: 'b' },
    { task: 'hold', tenantId: 't' },
    { task: 'release', tenantId: 'r' },
  ]);
  await looks.dueLanes();
  expect(asked[1]?.older.map(({ accountId }) => accountId)).toEqual(['a', 'b']);
});

test('due scheduled messages return their tenant once, with the oldest due time, and no lane', async () => {
  const { looks, asked, state } = setup(300);
  state.rows = [
    due(60_000, { priority: 4 }),
    due(90_000, { priority: 5, accountId: 'b' }),
    due(1_000, { accountId: 'b' }),
  ];
  expect(await looks.dueLanes()).toEqual([
    { task: 'due', tenantId: 't', accountId: 'b', oldestDue: new Date(LOOKED - 1_000), isSlowed: false },
    { task: 'queue', tenantId: 't', oldestDue: new Date(LOOKED - 90_000) },
  ]);
  const after = LOOKED - 5_000;
  expect(looks.dueFrom(LANE)).toEqual([after, after, after]);
  await looks.dueLanes();
  expect(asked[1]?.older.map(({ dueFrom }) => dueFrom)).toEqual([
    [after, after, after, after, LOOKED - 60_000, after],
    [after, LOOKED - 1_000, after, after, after, LOOKED - 90_000],
  ]);
});
