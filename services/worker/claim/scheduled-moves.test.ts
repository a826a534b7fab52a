import { expect, test } from 'vitest';
import type { WaitingRow } from '#core/store/sending/lane.ts';
import { createResolveWaiting, type ResolveDeps } from './resolve-waiting.ts';
import { createScheduledMoves, type ScheduledMovesDeps } from './scheduled-moves.ts';

const row = (tenantId: string, seq: number): WaitingRow => ({
  status: 'scheduled',
  tenantStatus: 'active',
  channel: 'sms',
  test: false,
  accountId: 'a',
  accountStatus: 'active',
  pinned: false,
  ambiguous: 0,
  waitedMs: 0,
  refusedBy: [],
  leftForRate: [],
  brake: null,
  suppression: null,
  isDue: true,
  isExpired: false,
  isLeaseOver: false,
  seq,
  id: `${tenantId}-${seq}`,
  tenantId,
  attempt: 0,
  waitsSince: new Date(0),
  requestId: null,
  rateLimitPerSecond: null,
  provider: 'twilio',
});

const DUE = new Date(1_000);

/** Sets up tenants; the numbers of the n-th tenant's messages start at n million. @param due number of due messages by tenant. */
function setup(due: Record<string, number>, { isMovedElsewhere = false, isExpired = false } = {}) {
  const tenants = Object.keys(due);
  const done: string[] = [];
  const asked: number[] = [];
  const marked = new Set<string>();
  let stopping = false;
  const store: ScheduledMovesDeps['store'] & ResolveDeps['store'] = {
    findScheduledDue(tenantId, most, dueFrom) {
      asked.push(dueFrom.getTime());
      const left = due[tenantId];
      if (left === undefined) return Promise.reject(new Error(tenantId));
      const first = tenants.indexOf(tenantId) * 1_000_000;
      return Promise.resolve(
        Array.from({ length: Math.min(most, left) }, (_, i) => ({
          ...row(tenantId, first + i),
          isExpired,
        })),
      );
    },
    moveMessages(seqs, status) {
      const tenantId = tenants[Math.floor((seqs[0] ?? 0) / 1_000_000)] ?? '';
      done.push(`${tenantId} ${seqs.length} ${status}`);
      if (isMovedElsewhere) return Promise.resolve(new Set());
      due[tenantId] = (due[tenantId] ?? 0) - seqs.length;
      return Promise.resolve(new Set(seqs));
    },
    accountsOf: () => Promise.resolve([]),
    routesOf: () => Promise.resolve([]),
    returnSent: () => Promise.resolve(new Set()),
    assignAccounts: () => Promise.resolve(new Set()),
    lost: () => Promise.resolve([]),
  };
  const moves = createScheduledMoves({
    store,
    resolve: createResolveWaiting({ store, endedUncalled: () => undefined, failedOver: () => undefined }),
    mark: (lane) => marked.add(`${lane.tenantId} ${lane.accountId}`),
    isStopping: () => stopping,
  });
  return { moves, done, asked, marked, stop: () => (stopping = true) };
}

test('scheduled messages are queued in batches, tenants take turns, and their lanes are marked', async () => {
  const { moves, done, marked } = setup({ large: 1_200, small: 10, none: 0 });
  for (const tenantId of ['large', 'small', 'none']) moves.add(tenantId, DUE);
  await moves.run();
  expect(done).toEqual(['large 500 queued', 'small 10 queued', 'large 500 queued', 'large 200 queued']);
  expect([...marked]).toEqual(['large a', 'small a']);
});

test('searches start at the oldest due time that was added', async () => {
  const { moves, asked } = setup({ a: 700 });
  moves.add('a', new Date(5_000));
  moves.add('a', new Date(4_000));
  moves.add('a', new Date(6_000));
  await moves.run();
  expect(asked).toEqual([4_000, 4_000]);
  moves.add('a', new Date(9_000));
  await moves.run();
  expect(asked).toEqual([4_000, 4_000, 9_000]);
});

test('stops when another worker moves the same messages, and marks no lane', async () => {
  const { moves, done, marked } = setup({ large: 1_200 }, { isMovedElsewhere: true });
  moves.add('large', DUE);
  await moves.run();
  expect(done).toEqual(['large 500 queued']);
  expect([...marked]).toEqual([]);
});

test('expired scheduled messages are ended in the same batches', async () => {
  const { moves, done } = setup({ late: 1_200 }, { isExpired: true });
  moves.add('late', DUE);
  await moves.run();
  expect(done).toEqual(['late 500 expired', 'late 500 expired', 'late 200 expired']);
});

test('a tenant whose search fails does not block others, and its error is thrown', async () => {
  const { moves, done } = setup({ b: 1 });
  moves.add('unknown', DUE);
  moves.add('b', DUE);
  await expect(moves.run()).rejects.toThrow('unknown');
  expect(done).toEqual(['b 1 queued']);
});

test('a stopping worker begins no further batch', async () => {
  const { moves, done, stop } = setup({ a: 1_000 });
  moves.add('a', DUE);
  stop();
  await moves.run();
  expect(done).toEqual([]);
});
