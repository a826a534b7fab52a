import { expect, test } from 'vitest';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import type { AcceptRow, Verdict } from '#core/store/messages/acceptance.ts';
import { createAcceptBatcher, type AcceptBatcherOptions } from './accept-batcher.ts';

/** Its id is derived from its number, which makes wake-ups easy to compare. */
const row = (id: string, tenant = `tenant of ${id}`) =>
  ({
    seq: id,
    id,
    tenant_id: tenant,
    account_id: 'a',
    priority: 1,
    traceparent: null,
  }) as unknown as AcceptRow;
const ACCEPTED: Verdict = { verdict: 'accepted', response: null, retryAfter: null, remaining: 1 };

const idsOf = (payload: string): string[] => payload.split('\n').map((line) => line.split(' ')[0] ?? '');

function setup(options: Partial<AcceptBatcherOptions> = {}) {
  const batches: string[][] = [];
  /** The message ids of each wake-up that was published. */
  const woken: string[][] = [];
  const sweeps: number[] = [];
  let isConnected = true;
  let clockRefusals = 0;
  const batcher = createAcceptBatcher({
    acceptMessages: (rows, sweepAfterMs) => {
      batches.push(rows.map(({ id }) => id));
      sweeps.push(sweepAfterMs);
      return Promise.resolve(rows.map(() => ACCEPTED));
    },
    wakes: {
      isConnected: () => isConnected,
      publishWakes: (wakes) => {
        woken.push(...wakes.map(({ payload }) => idsOf(String(payload))));
        return Promise.resolve({ failed: [] });
      },
    },
    onPlaceRefused: () => {
      clockRefusals += 1;
    },
    ...options,
  });
  return {
    batcher,
    batches,
    woken,
    sweeps,
    disconnect: () => (isConnected = false),
    clockRefusals: () => clockRefusals,
  };
}

test('concurrent requests share a commit and a wake-up', async () => {
  const { batcher, batches, woken } = setup();
  await Promise.all(['a', 'b', 'c'].map((id) => batcher.accept(row(id), 100)));
  expect(batches).toEqual([['a', 'b', 'c']]);
  expect(woken).toEqual([['a', 'b', 'c']]);
});

test('a batch holds at most rowsMax rows', async () => {
  const { batcher, batches } = setup({ rowsMax: 2 });
  await Promise.all(['a', 'b', 'c'].map((id) => batcher.accept(row(id), 100)));
  expect(batches.map((batch) => batch.length)).toEqual([2, 1]);
});

test('a batch holds at most bytesMax bytes, and small requests do not wait for large ones', async () => {
  const { batcher, batches } = setup({ bytesMax: 1_000 });
  const large = ['a', 'b', 'c'].map((id) => batcher.accept({ ...row(id), tenant_id: 'large' }, 600));
  const small = ['d', 'e'].map((id) => batcher.accept({ ...row(id), tenant_id: 'small' }, 100));
  await Promise.all([...large, ...small]);
  expect(batches).toEqual([['a', 'd', 'e'], ['b'], ['c']]);
});

// DS004: the content that was stored apart for one message is gone.
test.each(['22P05', '23514', '54000', 'XX000', 'DS004'])(
  'a row refused with %s fails alone',
  async (code) => {
    const refusal = Object.assign(new Error('no'), { name: 'PostgresError', code });
    const { batcher } = setup({
      acceptMessages: (rows) =>
        rows.some(({ id }) => id === 'poison')
          ? Promise.reject(refusal)
          : Promise.resolve(rows.map(() => ACCEPTED)),
    });
    const ids = ['a', 'b', 'poison', 'c', 'd'];
    const results = await Promise.allSettled(ids.map((id) => batcher.accept(row(id), 100)));
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ]);
  },
);

test('a refused clock (DS001) is reported once and fails all requests without a retry', async () => {
  const refusal = Object.assign(new Error('too early'), { name: 'PostgresError', code: 'DS001' });
  let calls = 0;
  const { batcher, clockRefusals } = setup({
    acceptMessages: () => {
      calls += 1;
      return Promise.reject(refusal);
    },
  });
  const results = await Promise.allSettled(['a', 'b'].map((id) => batcher.accept(row(id), 100)));
  expect(results.every(({ status }) => status === 'rejected')).toBe(true);
  expect([calls, clockRefusals()]).toEqual([1, 1]);
});

test('a lost connection fails all requests without a wake-up or a retry', async () => {
  let calls = 0;
  const { batcher, woken } = setup({
    acceptMessages: () => {
      calls += 1;
      return Promise.reject(new Error('connection lost'));
    },
  });
  const results = await Promise.allSettled(['a', 'b'].map((id) => batcher.accept(row(id), 100)));
  expect(results.every(({ status }) => status === 'rejected')).toBe(true);
  expect([calls, woken]).toEqual([1, []]);
});

test('only accepted messages are published in a wake-up', async () => {
  const { batcher, woken } = setup({
    acceptMessages: (rows) =>
      Promise.resolve(
        rows.map(({ id }) => (id === 'a' ? ACCEPTED : { ...ACCEPTED, verdict: 'rate_limited' })),
      ),
  });
  await Promise.all(['a', 'b'].map((id) => batcher.accept(row(id), 100)));
  expect(woken).toEqual([['a']]);
});

test('while NATS is disconnected, the sweep may claim accepted messages at once', async () => {
  const { batcher, sweeps, disconnect } = setup();
  await batcher.accept(row('a'), 100);
  disconnect();
  await batcher.accept(row('b'), 100);
  expect(sweeps).toEqual([5_000, 0]);
});

test('requests beyond the queue limits in number or bytes are refused at once', async () => {
  const stuck = Promise.withResolvers<Verdict[]>();
  const { batcher } = setup({ acceptMessages: () => stuck.promise, queuedMax: 2, queuedBytesMax: 1_000 });
  const taken = [batcher.accept(row('a'), 400), batcher.accept(row('b'), 400)];
  await expect(batcher.accept(row('c'), 100)).rejects.toThrow(QueueFullError);
  await expect(batcher.accept(row('d'), 400)).rejects.toThrow(QueueFullError);
  stuck.resolve([ACCEPTED, ACCEPTED]);
  await Promise.all(taken);
  await expect(batcher.accept(row('e'), 500)).resolves.toEqual(ACCEPTED);
});

test('a tenant fills at most half of the queue, in rows and bytes, and can reuse it afterwards', async () => {
  const stuck = Promise.withResolvers<void>();
  const { batcher } = setup({
    acceptMessages: async (rows) => {
      await stuck.promise;
      return rows.map(() => ACCEPTED);
    },
    queuedMax: 8,
    queuedBytesMax: 1_000,
  });
  const accept = (id: string, tenant: string, bytes: number) => batcher.accept(row(id, tenant), bytes);
  const loud = ['a', 'b', 'c', 'd'].map((id) => accept(id, 'loud', 10));
  await expect(accept('e', 'loud', 10)).rejects.toThrow(QueueFullError);
  const large = accept('f', 'large', 500);
  await expect(accept('g', 'large', 1)).rejects.toThrow(QueueFullError);
  const quiet = accept('h', 'quiet', 10);
  stuck.resolve();
  await Promise.all([...loud, large, quiet]);
  await expect(accept('i', 'loud', 500)).resolves.toEqual(ACCEPTED);
});

test('a message with a traceparent is published in a wake-up of its own', async () => {
  const { batcher, woken } = setup();
  const traced = { ...row('b'), traceparent: '00-1-2-01' } as AcceptRow;
  await Promise.all([row('a'), traced, row('c')].map((one) => batcher.accept(one, 100)));
  expect(woken).toEqual([['a', 'c'], ['b']]);
});

test('a flood of one tenant does not delay the message of another beyond the next commit', async () => {
  const { batcher, batches } = setup({ rowsMax: 10, flushesMax: 1 });
  const flood = Array.from({ length: 200 }, (_, n) => batcher.accept(row(`noisy ${n}`, 'noisy'), 100));
  await Promise.all([...flood, batcher.accept(row('quiet', 'quiet'), 100)]);
  expect(batches.findIndex((batch) => batch.includes('quiet'))).toBe(0);
  expect(batches.flat().filter((id) => id !== 'quiet')).toEqual(flood.map((_, n) => `noisy ${n}`));
});

test('a scheduled message wakes no worker before it is due', async () => {
  const { batcher, woken } = setup();
  const scheduled = { ...row('later'), status: 'scheduled' } as AcceptRow;
  await Promise.all([batcher.accept(scheduled, 100), batcher.accept(row('now'), 100)]);
  expect(woken).toEqual([['now']]);
});

test('a lost connection says nothing about the clock from which places are taken', async () => {
  const { batcher, clockRefusals } = setup({
    acceptMessages: () => Promise.reject(Object.assign(new Error('gone'), { code: 'CONNECTION_CLOSED' })),
  });
  await expect(batcher.accept(row('a'), 100)).rejects.toThrow('gone');
  expect(clockRefusals()).toBe(0);
});
