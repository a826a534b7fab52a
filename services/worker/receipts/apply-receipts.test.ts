import { expect, test } from 'vitest';
import type { ReceiptResult } from '#core/domain/decide-receipts.ts';
import { createReceiptApplier } from './apply-receipts.ts';
import type { ReceiptPace } from './receipt-pace.ts';

type Result = Pick<ReceiptResult, 'tenantId'>;

/** Creates a store with receipts of tenants, and a pace whose turns the test starts. */
function setup(due: Record<string, number>, behind: ReturnType<ReceiptPace['behind']> = new Set()) {
  const asked: (readonly string[])[] = [];
  const turns: (() => void)[] = [];
  const failed: unknown[] = [];
  const store = {
    async applyReceipts(most: number, _: unknown, without: readonly string[] = []) {
      asked.push(without);
      const results: Result[] = [];
      for (const [tenantId, n] of Object.entries(due)) {
        if (without.includes(tenantId)) continue;
        const some = Math.min(n, most - results.length);
        due[tenantId] = n - some;
        results.push(...Array.from({ length: some }, () => ({ tenantId })));
      }
      return { results, waitedMs: 0 };
    },
  };
  const applied: string[] = [];
  const applier = createReceiptApplier({
    store: store as never,
    pace: {
      behind: () => behind,
      run: (work) => work(),
      runBehind: (work) => new Promise<void>((resolve) => turns.push(resolve)).then(() => work()),
    },
    isSending: () => true,
    onApplied: (results) => void applied.push(...results.map(({ tenantId }) => tenantId)),
    onFailed: (error) => void failed.push(error),
    isStopping: () => false,
  });
  return { applier, asked, turns, applied, failed, due };
}

test('applies all that is due, some at a time', async () => {
  const { applier, applied, asked } = setup({ a: 300 });
  await applier.apply();
  expect([applied.length, asked.length]).toEqual([300, 3]);
});

test('others do not wait for a tenant that is behind, which has its turns later', async () => {
  const { applier, applied, turns, due } = setup({ loud: 200, quiet: 2 }, new Set(['loud']));
  await applier.apply();
  expect(applied).toEqual(['quiet', 'quiet']);
  due['quiet'] = 1;
  await applier.apply();
  expect(applied).toHaveLength(3);
  expect(turns).toHaveLength(1);
  turns[0]?.();
  await expect.poll(() => turns.length).toBe(2);
  expect(applied.filter((one) => one === 'loud')).toHaveLength(128);
  turns[1]?.();
  await applier.drain();
  expect(due['loud']).toBe(0);
});

test('where everyone is behind, all that is due waits for its turn', async () => {
  const { applier, applied, turns } = setup({ a: 3 }, 'everyone');
  await applier.apply();
  expect(applied).toEqual([]);
  turns[0]?.();
  await applier.drain();
  expect(applied).toEqual(['a', 'a', 'a']);
});
