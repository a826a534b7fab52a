import { expect, test } from 'vitest';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import { createPartitionMaker } from './partition-maker.ts';

const NOTHING: Maintained = { made: 0, dropped: [], busy: [], unsettled: [], failures: [] };

function setup() {
  const state = { now: 0, result: NOTHING as Maintained | 'elsewhere' };
  const reported: Maintained[] = [];
  const maker = createPartitionMaker({
    store: { makePartitions: async () => state.result },
    onMaintained: (result) => reported.push(result),
    monotonicMs: () => state.now,
  });
  return { state, reported, maker };
}

test('the first change of a tenant makes partitions after a second', () => {
  expect(setup().maker.request()).toBe(1_000);
});

test('without a request nothing is made, because upkeep does it', async () => {
  const { state, reported, maker } = setup();
  state.result = { ...NOTHING, made: 2 };
  expect(await maker.make()).toBeUndefined();
  expect(reported).toEqual([]);
});

test('changes of tenants make partitions once a minute', async () => {
  const { state, maker } = setup();
  maker.request();
  expect(await maker.make()).toBeUndefined();
  expect(maker.request()).toBe(60_000);
  state.now = 45_000;
  expect(maker.request()).toBe(15_000);
  state.now = 90_000;
  expect(maker.request()).toBe(1_000);
});

test('a table that another session reads for long is tried again after five minutes, and not before', async () => {
  const { state, reported, maker } = setup();
  state.result = { ...NOTHING, busy: ['messages'] };
  maker.request();
  expect(await maker.make()).toBe(300_000);
  expect(maker.request()).toBe(300_000);
  expect(reported).toEqual([state.result]);
  state.now = 300_000;
  state.result = { ...NOTHING, made: 1 };
  expect(await maker.make()).toBeUndefined();
  expect(reported).toHaveLength(2);
});

test('while another worker does it, the rest is looked for a minute later', async () => {
  const { state, reported, maker } = setup();
  state.result = 'elsewhere';
  maker.request();
  expect(await maker.make()).toBe(60_000);
  state.result = NOTHING;
  expect(await maker.make()).toBeUndefined();
  expect(reported).toEqual([]);
});

test('a request is served once, and again only while a table is busy or another worker makes partitions', async () => {
  const { state, reported, maker } = setup();
  state.result = { ...NOTHING, made: 1 };
  maker.request();
  await maker.make();
  expect(await maker.make()).toBeUndefined();
  expect(reported).toHaveLength(1);
  maker.request();
  for (const result of ['elsewhere', { ...NOTHING, busy: ['messages'] }] as const) {
    state.result = result;
    await maker.make();
  }
  state.result = { ...NOTHING, made: 2 };
  await maker.make();
  await maker.make();
  expect(reported.map(({ made }) => made)).toEqual([1, 0, 2]);
});

test('an error names all that could not be made', async () => {
  const { state, maker } = setup();
  const failures = ['messages_20270104', 'feed_20270104'].map((what) => ({
    what,
    error: new Error('refused'),
  }));
  state.result = { ...NOTHING, failures };
  maker.request();
  await expect(maker.make()).rejects.toThrow('Upkeep failed for: messages_20270104, feed_20270104');
});
