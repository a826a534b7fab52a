import { expect, test } from 'vitest';
import type { Maintained } from '#core/store/partitions.ts';
import { createPartitionMaker } from './partition-maker.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], unsettled: [], failures: [] };

function setup() {
  const state = { now: 0, result: NOTHING as Maintained | 'elsewhere' };
  const reported: Maintained[] = [];
  const maker = createPartitionMaker({
    store: { makePartitions: async () => state.result },
    onMaintained: (result) => reported.push(result),
    now: () => state.now,
  });
  return { state, reported, maker };
}

test('the first change of a tenant makes partitions after a second', () => {
  expect(setup().maker.gapMs()).toBe(1_000);
});

test('changes of tenants make partitions once a minute', async () => {
  const { state, maker } = setup();
  await maker.make();
  expect(maker.gapMs()).toBe(60_000);
  state.now = 45_000;
  expect(maker.gapMs()).toBe(15_000);
  state.now = 90_000;
  expect(maker.gapMs()).toBe(1_000);
});

test('a table that another session reads for long is not tried again for five minutes', async () => {
  const { state, reported, maker } = setup();
  state.result = { ...NOTHING, busy: ['messages'] };
  await maker.make();
  expect(maker.gapMs()).toBe(300_000);
  expect(reported).toEqual([state.result]);
});

test.each<[what: string, result: Maintained | 'elsewhere', reports: number]>([
  ['made partitions', { ...NOTHING, made: 2 }, 1],
  ['no partition to make', NOTHING, 0],
  ['another worker that does it', 'elsewhere', 0],
])('%s: reported or not', async (_what, result, reports) => {
  const { state, reported, maker } = setup();
  state.result = result;
  await maker.make();
  expect(reported).toHaveLength(reports);
});

test('an error names all that could not be made', async () => {
  const { state, maker } = setup();
  const failures = ['messages_20270104', 'feed_20270104'].map((what) => ({
    what,
    error: new Error('refused'),
  }));
  state.result = { ...NOTHING, failures };
  await expect(maker.make()).rejects.toThrow('Upkeep failed for: messages_20270104, feed_20270104');
});
