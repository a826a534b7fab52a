import { expect, test } from 'vitest';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import type { ReceiptCallVerdict } from '#core/store/receipts/receipt-calls.ts';
import {
  createReceiptBatcher,
  type ReceiptBatcherOptions,
  type TenantReceiptCall,
} from './receipt-batcher.ts';

const call = (query: string, tenant = `tenant of ${query}`, bytes = 10): TenantReceiptCall => ({
  tenantId: tenant as TenantId,
  accountId: `account for ${query}` as ProviderAccountId,
  method: 'POST',
  receiptVersion: 1,
  query,
  headers: {},
  body: Buffer.alloc(bytes),
});

function setup(options: Partial<ReceiptBatcherOptions> = {}) {
  const batches: string[][] = [];
  let told = 0;
  const batcher = createReceiptBatcher({
    storeReceiptCalls: (calls) => {
      batches.push(calls.map(({ query }) => query));
      return Promise.resolve(calls.map(() => 'stored'));
    },
    onStored: () => {
      told += 1;
    },
    ...options,
  });
  return { batcher, batches, told: () => told };
}

test('concurrent calls share a commit, and each gets its own verdict', async () => {
  const verdicts: ReceiptCallVerdict[] = ['stored', 'full', 'gone'];
  let commits = 0;
  const { batcher } = setup({
    storeReceiptCalls: () => {
      commits += 1;
      return Promise.resolve(verdicts);
    },
  });
  expect(await Promise.all(['a', 'b', 'c'].map((query) => batcher.store(call(query))))).toEqual(verdicts);
  expect(commits).toBe(1);
});

test('a batch stays within callsMax and bytesMax, and a larger call is stored alone', async () => {
  const byNumber = setup({ callsMax: 2 });
  await Promise.all(['a', 'b', 'c'].map((query) => byNumber.batcher.store(call(query))));
  expect(byNumber.batches.map((batch) => batch.length)).toEqual([2, 1]);
  const byBytes = setup({ bytesMax: 1_000 });
  const sizes = { a: 600, b: 600, c: 300, d: 5_000 };
  await Promise.all(
    Object.entries(sizes).map(([query, bytes]) => byBytes.batcher.store(call(query, query, bytes))),
  );
  expect(byBytes.batches.map((batch) => batch.join())).toEqual(expect.arrayContaining(['a,c', 'b', 'd']));
});

test("a flood to the accounts of one tenant does not delay the others' calls beyond the next batch", async () => {
  const { batcher, batches } = setup({ callsMax: 4 });
  const flood = Array.from({ length: 20 }, (_, i) => batcher.store(call(`flood ${i}`, 'flooded')));
  await Promise.all([...flood, batcher.store(call('other'))]);
  expect(batches[0]).toContain('other');
});

test('one tenant fills at most half of the queue, in calls and in bytes; others get the rest', async () => {
  const stuck = Promise.withResolvers<ReceiptCallVerdict[]>();
  const storeReceiptCalls = () => stuck.promise;
  const byNumber = setup({ storeReceiptCalls, queuedMax: 4 }).batcher;
  const byBytes = setup({ storeReceiptCalls, queuedBytesMax: 1_000 }).batcher;
  const taken = [
    byNumber.store(call('1', 'a')),
    byNumber.store(call('2', 'a')),
    byNumber.store(call('3', 'b')),
    byBytes.store(call('4', 'a', 500)),
    byBytes.store(call('5', 'b', 400)),
  ];
  await expect(byNumber.store(call('6', 'a'))).rejects.toThrow(QueueFullError);
  await expect(byBytes.store(call('7', 'a', 1))).rejects.toThrow(QueueFullError);
  await expect(byBytes.store(call('8', 'c', 101))).rejects.toThrow(QueueFullError);
  stuck.resolve(['stored', 'stored', 'stored']);
  await Promise.all(taken);
  await expect(byBytes.store(call('9', 'a', 500))).resolves.toBe('stored');
});

test('a call that the database refuses fails alone', async () => {
  const refusal = Object.assign(new Error('no'), { name: 'PostgresError', code: '22P05' });
  const { batcher } = setup({
    storeReceiptCalls: (calls) =>
      calls.some(({ query }) => query === 'poison')
        ? Promise.reject(refusal)
        : Promise.resolve(calls.map(() => 'stored')),
  });
  const results = await Promise.allSettled(
    ['a', 'b', 'poison', 'c', 'd'].map((query) => batcher.store(call(query))),
  );
  expect(results.map(({ status }) => status === 'fulfilled')).toEqual([true, true, false, true, true]);
});

test('a lost connection fails all calls without a retry', async () => {
  let commits = 0;
  const { batcher } = setup({
    storeReceiptCalls: () => {
      commits += 1;
      return Promise.reject(new Error('connection lost'));
    },
  });
  const results = await Promise.allSettled(['a', 'b'].map((query) => batcher.store(call(query))));
  expect(results.every(({ status }) => status === 'rejected')).toBe(true);
  expect(commits).toBe(1);
});

test('onStored is called once per commit that stored a call', async () => {
  const { batcher, told } = setup();
  await Promise.all(['a', 'b'].map((query) => batcher.store(call(query))));
  expect(told()).toBe(1);
  const full = setup({ storeReceiptCalls: (calls) => Promise.resolve(calls.map(() => 'full')) });
  await full.batcher.store(call('a'));
  expect(full.told()).toBe(0);
});
