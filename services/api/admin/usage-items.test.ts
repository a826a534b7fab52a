import { expect, test } from 'vitest';
import { USAGE_STATUSES } from '#core/domain/tenant/usage-query.ts';
import { createSharedPauses } from '../http/admission/shared-pauses.ts';
import { usageCsv, usageItems, type CountRow, type TimesRow } from './usage-items.ts';

type Key = { readonly value: string };

const BUCKETS = Array.from({ length: 200 }, (_, nth) => nth % 7);
const values = (n: number): string[] => Array.from({ length: n }, (_, i) => `value ${i}`);
const countsOf = (groups: number): (Key & CountRow)[] =>
  values(groups).flatMap((value) =>
    USAGE_STATUSES.slice(0, 5).map((status) => ({ value, status, messages: 2, segments: 3 })),
  );
const timesOf = (groups: number): (Key & TimesRow)[] =>
  values(groups).map((value) => ({ value, until: 'provider', counts: BUCKETS }));

const pause = () => createSharedPauses().of('a tenant');

/** Groups by the value, and counts how often the fields of a group were asked for. */
function byValue() {
  const asked = { shown: 0 };
  return {
    asked,
    nameOf: ({ value }: Key) => value,
    shown({ value }: Key) {
      asked.shown += 1;
      return { tag: value };
    },
  };
}

/** Counts the turns that the event loop gives to others until the work has ended. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    if (isOver) return;
    turns += 1;
    setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

test('merges the counts and times of a group into one item, in the order of the counts', async () => {
  const groups = byValue();
  const [first, second] = await usageItems(
    countsOf(2),
    timesOf(2).toReversed(),
    { ...groups, byStatus: false },
    pause(),
  );
  expect(first).toMatchObject({ tag: 'value 0', messages: 10, segments: 15, timeToReceipt: null });
  expect(first?.['statuses']).toMatchObject(
    Object.fromEntries(USAGE_STATUSES.map((status, nth) => [status, nth < 5 ? 2 : 0])),
  );
  expect(second).toMatchObject({ tag: 'value 1', timeToProvider: { p50: expect.any(Number) } });
  expect(groups.asked.shown).toBe(2);
});

test('with byStatus, every status of a group is an item of its own', async () => {
  const items = await usageItems(countsOf(2), timesOf(2), { ...byValue(), byStatus: true }, pause());
  expect(items).toHaveLength(10);
  expect(items[0]).toEqual({ tag: 'value 0', status: USAGE_STATUSES[0], messages: 2, segments: 3 });
});

test.each([false, true])('10,000 groups yield to the event loop (by status: %s)', async (byStatus) => {
  const [counts, times] = [countsOf(10_000), timesOf(10_000)];
  const turns = await turnsDuring(() => usageItems(counts, times, { ...byValue(), byStatus }, pause()));
  expect(turns).toBeGreaterThan(byStatus ? 1 : 3);
});

test('writing a CSV of 10,000 rows yields to the event loop', async () => {
  const items = await usageItems(
    countsOf(10_000),
    timesOf(10_000),
    { ...byValue(), byStatus: false },
    pause(),
  );
  const tables: string[] = [];
  const turns = await turnsDuring(async () => tables.push(await usageCsv(['tag'], items, false, pause())));
  expect(turns).toBeGreaterThan(1);
  expect(tables[0]?.split('\r\n')).toHaveLength(10_002);
});
