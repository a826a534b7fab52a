import { expect, test } from 'vitest';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import { maintain } from './maintain.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], unsettled: [], failures: [] };
const failure = (code: string) =>
  Object.assign(new Error(`refused ${code}`), { name: 'PostgresError', code });

type Ended = {
  readonly days?: readonly string[];
  readonly ended?: number | 'elsewhere' | Error;
  /** By how many seconds the worker's clock is ahead of the database's. */
  readonly offsetSeconds?: number;
};

/** Runs upkeep. @param ended the answer of the end of outlived messages, or how it fails. */
async function run(
  result: Partial<Maintained> | 'elsewhere',
  { days = ['2026-01-05'], ended = 0, offsetSeconds = 0 }: Ended = {},
) {
  const told: string[] = [];
  const outcome = await maintain({
    store: {
      clockOffsetSeconds: async () => offsetSeconds,
      makePartitions: async () => (
        told.push('make'),
        result === 'elsewhere' ? result : { ...NOTHING, ...result }
      ),
      unsettledDays: async () => [...days],
      endOutlived: async () => {
        if (ended instanceof Error) throw ended;
        if (ended !== 0) told.push('ended');
        return ended;
      },
      maintain: async () => (
        told.push('maintain'),
        result === 'elsewhere' ? result : { ...NOTHING, ...result }
      ),
    },
    onMaintained: () => told.push('reported'),
    retrySoon: () => told.push('again'),
  }).catch((error: unknown) => error);
  return { told, outcome };
}

test.each<
  [what: string, result: Partial<Maintained> | 'elsewhere', outcome: 'unfinished' | undefined, told: string[]]
>([
  ['is done', {}, undefined, ['reported']],
  ['is done by another worker', 'elsewhere', 'unfinished', []],
  ['is repeated soon where tables are busy', { busy: ['messages'] }, 'unfinished', ['reported', 'again']],
  [
    'is repeated soon where a week has unsettled messages',
    { unsettled: ['2026-01-05'] },
    'unfinished',
    ['reported', 'again'],
  ],
])('upkeep %s', async (_what, result, outcome, told) => {
  expect(await run(result)).toEqual({ outcome, told: ['maintain', ...told] });
});

test('partitions are made and tables purged although outlived messages could not be ended', async () => {
  const refused = failure('57014');
  const { outcome, told } = await run({ busy: ['messages'] }, { ended: refused });
  expect(told).toEqual(['maintain', 'reported', 'again']);
  expect(outcome).toEqual(new AggregateError([refused], 'Upkeep failed for: live_messages'));
});

test('the error of a run names everything that failed', async () => {
  const errors = [failure('57014'), failure('42501'), failure('42501')];
  const failures = ['suppressions', 'usage_counts'].map((what, i) => ({ what, error: errors[i + 1] }));
  const { outcome, told } = await run({ failures }, { ended: errors[0] ?? 0 });
  expect(outcome).toEqual(
    new AggregateError(errors, 'Upkeep failed for: live_messages, suppressions, usage_counts'),
  );
  expect(told).toEqual(['maintain', 'reported']);
});

test('upkeep is not tried while the database is lost', async () => {
  const lost = failure('57P01');
  expect(await run({}, { ended: lost })).toEqual({ outcome: lost, told: [] });
});

test('live messages are read only if a week with some of them is over', async () => {
  expect((await run({}, { ended: 2 })).told).toEqual(['ended', 'maintain', 'reported']);
  expect((await run({}, { days: [], ended: 2 })).told).toEqual(['maintain', 'reported']);
});

test('a worker leaves upkeep to the one that ends outlived messages', async () => {
  expect(await run({}, { ended: 'elsewhere' })).toEqual({ outcome: 'unfinished', told: ['ended'] });
});

test('an error is reported although another worker does the rest', async () => {
  const refused = failure('57014');
  const { outcome } = await run('elsewhere', { ended: refused });
  expect(outcome).toEqual(new AggregateError([refused], 'Upkeep failed for: live_messages'));
});

test('nothing is ended or dropped while the database is hours ahead of the worker, but partitions are made', async () => {
  const { told, outcome } = await run({ failures: [{ what: 'feed', error: 1 }] }, { offsetSeconds: -3_700 });
  expect(told).toEqual(['make', 'reported']);
  expect(outcome).toMatchObject({
    message: 'Upkeep failed for: feed, clock',
    errors: [1, { message: "The database's clock is 3700 seconds ahead of this process's" }],
  });
  expect((await run('elsewhere', { offsetSeconds: -3_700 })).told).toEqual(['make']);
});

test.each([-3_500, 3_700])(
  'upkeep is done if the worker is %i seconds ahead of the database',
  async (offsetSeconds) => {
    expect(await run({}, { offsetSeconds })).toEqual({ outcome: undefined, told: ['maintain', 'reported'] });
  },
);
