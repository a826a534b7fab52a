import { expect, test } from 'vitest';
import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { CountedWindow, CountingPass } from '#core/store/tenants/usage-counting.ts';
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

test('each brake that follows from a pass is told, and a stopping worker ends after the pass', async () => {
  const windows = [{ tenantId: 'a' }, { tenantId: 'b' }] as CountedWindow[];
  const braked: string[] = [];
  let batches = 0;
  const ended = await countUsage({
    store: { countUsage: () => Promise.resolve({ outcome: 'more', windows }) },
    brakeChannels: async (some) => some.map(({ tenantId }) => ({ tenantId }) as AuditEntry),
    onBraked: ({ tenantId }) => void braked.push(tenantId),
    onBatch: () => void (batches += 1),
    isStopping: () => batches === 1,
  });
  expect(ended).toBeUndefined();
  expect({ braked, batches }).toEqual({ braked: ['a', 'b', 'a', 'b'], batches: 1 });
});
