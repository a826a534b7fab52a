import { expect, test } from 'vitest';
import type { Maintained } from '#core/store/partitions.ts';
import { maintain } from './maintain.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], unsettled: [], failures: [] };
const failure = (code: string) =>
  Object.assign(new Error(`refused ${code}`), { name: 'PostgresError', code });

/** Runs upkeep. @param ended how the end of outlived messages fails; null: not at all. */
async function run(result: Partial<Maintained> | 'elsewhere', ended: Error | null = null) {
  const told: string[] = [];
  const outcome = await maintain({
    store: {
      endOutlived: async () => (ended === null ? 0 : Promise.reject(ended)),
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
  const { outcome, told } = await run({ busy: ['messages'] }, refused);
  expect(told).toEqual(['maintain', 'reported', 'again']);
  expect(outcome).toEqual(new AggregateError([refused], 'Upkeep failed for: live_messages'));
});

test('the error of a run names everything that failed', async () => {
  const errors = [failure('57014'), failure('42501'), failure('42501')];
  const failures = ['suppressions', 'usage_counts'].map((what, i) => ({ what, error: errors[i + 1] }));
  const { outcome, told } = await run({ failures }, errors[0]);
  expect(outcome).toEqual(
    new AggregateError(errors, 'Upkeep failed for: live_messages, suppressions, usage_counts'),
  );
  expect(told).toEqual(['maintain', 'reported']);
});

test('upkeep is not tried while the database is lost', async () => {
  const lost = failure('57P01');
  expect(await run({}, lost)).toEqual({ outcome: lost, told: [] });
});

test('an error is reported although another worker does the rest', async () => {
  const refused = failure('57014');
  const { outcome } = await run('elsewhere', refused);
  expect(outcome).toEqual(new AggregateError([refused], 'Upkeep failed for: live_messages'));
});
