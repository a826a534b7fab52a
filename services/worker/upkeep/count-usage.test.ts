import { expect, test } from 'vitest';
import type { CountingPass } from '#core/store/tenants/usage-counting.ts';
import { countUsage } from './count-usage.ts';

type Outcome = CountingPass['outcome'];

const counting = (...outcomes: Outcome[]) =>
  countUsage({
    store: { countUsage: () => Promise.resolve({ outcome: outcomes.shift() ?? 'idle', windows: [] }) },
    brakeChannels: () => Promise.resolve([]),
    onBraked: () => undefined,
    onBatch: () => undefined,
    isStopping: () => false,
  });

test('a worker that finds another one counting does not report success for it', async () => {
  expect(await counting('elsewhere')).toBe('unfinished');
  expect(await counting('more', 'elsewhere')).toBe('unfinished');
});

test.each<Outcome>(['counted', 'idle', 'early'])(
  'a pass with the outcome %s is a success',
  async (outcome) => {
    expect(await counting('more', outcome)).toBeUndefined();
  },
);
