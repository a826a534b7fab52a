import { expect, test } from 'vitest';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import type { DueReceipt } from '#core/domain/receipts/due-receipt.ts';
import type { ReceiptResult } from '#core/domain/receipts/receipt-decisions.ts';
import { createReceiptApplier, type ReceiptApplierDeps } from './receipt-applier.ts';
import type { ReceiptPace } from './receipt-pace.ts';

type Result = Pick<ReceiptResult, 'tenantId'>;

/** A receipt whose message is not known yet. */
const RECEIPT = {
  tenantId: 'a',
  provider: 'twilio',
  accountId: null,
  waiting: false,
  seq: null,
  purgeOn: null,
  status: null,
  underWay: false,
} as unknown as DueReceipt;

function setupWith(store: ReceiptApplierDeps['store'], overrides: Partial<ReceiptApplierDeps> = {}) {
  const applied: string[] = [];
  const failed: unknown[] = [];
  const applier = createReceiptApplier({
    store,
    pace: {
      withSurplus: () => new Set(),
      run: (_, work) => work(),
    },
    isSending: () => true,
    onApplied: (results) => void applied.push(...results.map(({ tenantId }) => tenantId)),
    onFailed: (error) => void failed.push(error),
    isStopping: () => false,
    ...overrides,
  });
  return { applier, applied, failed };
}

/** Creates a store with receipts of tenants, and a pace whose turns the test starts. */
function setup(due: Record<string, number>, withSurplus: ReturnType<ReceiptPace['withSurplus']> = new Set()) {
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
      withSurplus: () => withSurplus,
      async run(kind, work) {
        if (kind === 'surplus') await new Promise<void>((resolve) => turns.push(resolve));
        return await work();
      },
    },
    isSending: () => true,
    onApplied: (results) => void applied.push(...results.map(({ tenantId }) => tenantId)),
    onFailed: (error) => void failed.push(error),
    isStopping: () => false,
  });
  return { applier, asked, turns, applied, failed, due };
}

test('applies all due receipts in batches', async () => {
  const { applier, applied, asked } = setup({ a: 300 });
  await applier.apply();
  expect([applied.length, asked.length]).toEqual([300, 3]);
});

test('a tenant with surplus is applied later in turns, and others do not wait for it', async () => {
  const { applier, applied, turns, due } = setup({ loud: 50, quiet: 2 }, new Set(['loud']));
  await applier.apply();
  expect(applied).toEqual(['quiet', 'quiet']);
  due['quiet'] = 1;
  await applier.apply();
  expect(applied).toHaveLength(3);
  expect(turns).toHaveLength(1);
  turns[0]?.();
  await expect.poll(() => turns.length).toBe(2);
  expect(applied.filter((one) => one === 'loud')).toHaveLength(32);
  turns[1]?.();
  await applier.drain();
  expect(due['loud']).toBe(0);
});

test('if every tenant has surplus, all due receipts wait for a turn', async () => {
  const { applier, applied, turns } = setup({ a: 3 }, 'everyone');
  await applier.apply();
  expect(applied).toEqual([]);
  turns[0]?.();
  await applier.drain();
  expect(applied).toEqual(['a', 'a', 'a']);
});

test.each([
  ['the database refuses', Object.assign(new Error('too large'), { name: 'PostgresError', code: '54000' })],
  ['no decision can be made about', new RangeError('a bug')],
])('a receipt that %s is postponed, and the others are applied', async (_, fault) => {
  const due = ['one', 'bad', 'two'].map((id) => ({ ...RECEIPT, id, waitedMs: 5_000 }));
  const putOff: unknown[] = [];
  const { applier, applied, failed } = setupWith({
    applyReceipts: async (most, decide) => {
      const some = due.slice(0, most);
      const decided = decide(some);
      if (some.some(({ id }) => id === 'bad')) throw fault;
      due.splice(0, some.length);
      return decided;
    },
    putOffReceipts: async (some) => {
      putOff.push(...some);
      due.splice(0, some.length);
    },
  });
  await applier.apply();
  expect(applied).toEqual(['a', 'a']);
  expect(putOff).toEqual([{ id: 'bad', ms: 5_000 }]);
  expect(failed).toEqual([fault]);
});

test('no receipt is postponed while the database is unavailable', async () => {
  const fault = Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' });
  let asked = 0;
  const { applier, failed } = setupWith({
    applyReceipts() {
      asked += 1;
      return Promise.reject(fault);
    },
    putOffReceipts: () => Promise.reject(new Error('not called')),
  });
  await expect(applier.apply()).rejects.toBe(fault);
  expect({ asked, failed }).toEqual({ asked: 1, failed: [] });
});

test('a receipt that was being applied when the database was lost is not postponed', async () => {
  const refused = Object.assign(new Error('too large'), { name: 'PostgresError', code: '54000' });
  const fault = new DependencyError('postgres', 'unavailable', 'gone');
  const { applier, failed } = setupWith({
    async applyReceipts(most, decide) {
      decide([RECEIPT]);
      throw most === 1 ? fault : refused;
    },
    putOffReceipts: () => Promise.reject(new Error('not called')),
  });
  await expect(applier.apply()).rejects.toBe(fault);
  expect(failed).toEqual([]);
});

test('a query that fails regardless of its receipts is not repeated in a loop', async () => {
  const fault = Object.assign(new Error('damaged'), { name: 'PostgresError', code: 'XX001' });
  let asked = 0;
  const { applier } = setupWith({
    applyReceipts: () => {
      asked += 1;
      return Promise.reject(fault);
    },
    putOffReceipts: () => Promise.reject(new Error('not called')),
  });
  await expect(applier.apply()).rejects.toBe(fault);
  expect(asked).toBe(2);
});

test.each([
  [true, 128],
  [false, 256],
])('while messages are sent (%s), a batch takes %i receipts', async (isSending, size) => {
  const sizes: number[] = [];
  const { applier } = setupWith(
    {
      applyReceipts: async (most) => (sizes.push(most), { results: [], waitedMs: 0 }) as never,
      putOffReceipts: () => Promise.reject(new Error('not called')),
    },
    { isSending: () => isSending },
  );
  await applier.apply();
  expect(sizes).toEqual([size]);
});

test('a stopping worker ends after its batch, and after the receipt that it applies singly', async () => {
  const full = Array.from({ length: 128 }, () => ({ tenantId: 'a' }));
  const fault = Object.assign(new Error('too large'), { name: 'PostgresError', code: '54000' });
  for (const isRefused of [false, true]) {
    const asked: number[] = [];
    const { applier } = setupWith(
      {
        async applyReceipts(most) {
          asked.push(most);
          if (isRefused && most > 1) throw fault;
          return { results: full.slice(0, most), waitedMs: 0 } as never;
        },
        putOffReceipts: () => Promise.reject(new Error('not called')),
      },
      { isStopping: () => asked.length >= 2 },
    );
    await applier.apply();
    expect(asked).toEqual(isRefused ? [128, 1] : [128, 128]);
  }
});

test('after a batch that was refused, as many receipts are tried singly, and then a batch again', async () => {
  const fault = Object.assign(new Error('too large'), { name: 'PostgresError', code: '54000' });
  const asked: number[] = [];
  let batches = 0;
  const { applier } = setupWith({
    async applyReceipts(most) {
      asked.push(most);
      if (asked.length === 1) throw fault;
      return { results: most === 1 ? [{ tenantId: 'a' }] : [], waitedMs: 0 } as never;
    },
    putOffReceipts: () => Promise.reject(new Error('not called')),
  });
  await applier.apply(() => void (batches += 1));
  expect(asked).toEqual([128, ...Array.from({ length: 128 }, () => 1), 128]);
  expect(batches).toBe(1);
});
