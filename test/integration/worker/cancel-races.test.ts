import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { decideCancel } from '#core/domain/sending/decide-cancel.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import { asJson, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { cancelMessages } from '#core/store/messages/cancellation.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const TERMS = { worker: 'w1', leaseMs: 60_000 };

async function setup() {
  const stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  const accountId = await seedAccount(stores.admin, tenant.tenantId);
  const cancel = <T>(
    seqs: readonly number[],
    during: (found: ReadonlyMap<number, MessageState>, tx: TransactionSql) => T | Promise<T>,
    of = tenant.tenantId,
  ): Promise<T> =>
    withTenant(stores.api, of as TenantId, async (tx) => during(await cancelMessages(tx, seqs), tx));
  return {
    ...stores,
    tenant,
    accountId,
    cancel,
    async accept(n: number) {
      const rows = Array.from({ length: n }, () => acceptRow(tenant));
      await acceptBatch(stores.api, rows, 0);
      return rows.map(({ seq }) => seq);
    },
    async stateOf(seq: number) {
      const [row] = await stores.admin<{ status: MessageState }[]>`
        select status from despatch.message_states where seq = ${seq}`;
      return row?.status;
    },
    /** Resolves when this many sessions wait for a lock. */
    async waiting(sessions: number) {
      await expect.poll(() => lockWaits(stores.admin)).toHaveLength(sessions);
    },
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

type Bench = Awaited<ReturnType<typeof setup>>;

/** Runs `work` in a transaction. @returns a function that commits it. */
async function heldOpen(b: Bench, work: (tx: TransactionSql) => Promise<unknown>) {
  const done = Promise.withResolvers<void>();
  const commit = Promise.withResolvers<void>();
  const held = b.worker.begin(async (tx) => {
    await work(tx as TransactionSql);
    done.resolve();
    await commit.promise;
  });
  await Promise.race([done.promise, held]);
  return async () => {
    commit.resolve();
    await held;
  };
}

const claimIn = (tx: TransactionSql, seqs: readonly number[]) =>
  tx`select from claim(${[...seqs]}::bigint[], 'w1', 60000, false, 1000000)`;

test('a message canceled first is not claimed, neither by sequence number nor from its lane', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const claims = await b.cancel([seq], async (found) => {
    expect(found.get(seq)).toBe('queued');
    const named = b.store.claim([seq], TERMS);
    await b.waiting(1);
    return { named };
  });
  expect(await claims.named).toEqual([]);
  const { tenant, accountId } = b;
  expect(
    await b.store.claimDue([{ tenantId: tenant.tenantId, accountId, most: 10, aheadMs: 0 }], TERMS),
  ).toEqual([]);
  expect(await b.stateOf(seq)).toBe('canceled');
});

test('a cancel that waits for a claim to commit finds the message sending and leaves it', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const commit = await heldOpen(b, (tx) => claimIn(tx, [seq]));
  const canceling = b.cancel([seq], (found) => found.get(seq));
  await b.waiting(1);
  await commit();
  expect(await canceling).toBe('sending');
  expect(await b.stateOf(seq)).toBe('sending');
});

test('a cancel that waits for a claim that rolls back cancels the message', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const undone = new Error('undone');
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const claim = b.worker.begin(async (tx) => {
    await claimIn(tx as TransactionSql, [seq]);
    begun.resolve();
    await end.promise;
    throw undone;
  });
  await begun.promise;
  const canceling = b.cancel([seq], (found) => found.get(seq));
  await b.waiting(1);
  end.resolve();
  await expect(claim).rejects.toBe(undone);
  expect(await canceling).toBe('queued');
  expect(await b.stateOf(seq)).toBe('canceled');
});

test.each([
  { as: 'cancels the deferred one', completion: { kind: 'deferred' }, found: 'deferred', state: 'canceled' },
  { as: 'leaves the sent one', completion: { kind: 'sent' }, found: undefined, state: 'sent' },
] as const)(
  'a cancel that waits for the completion of a message $as',
  async ({ completion, found, state }) => {
    await using b = await setup();
    const [seq = 0] = await b.accept(1);
    const [message] = await b.store.claim([seq], TERMS);
    if (message === undefined) throw new Error('not claimed');
    const row = completionOf(
      message,
      completion.kind === 'sent'
        ? { kind: 'accepted', providerMessageId: 'p-1' }
        : { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'http_503' } },
    );
    const commit = await heldOpen(b, (tx) => tx`select complete(${asJson(b.worker, [row])})`);
    const canceling = b.cancel([seq], (of) => of.get(seq));
    await b.waiting(1);
    await commit();
    expect(await canceling).toBe(found);
    expect(await b.stateOf(seq)).toBe(state);
  },
);

test('a repeated completion of a message that was canceled meanwhile changes nothing', async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const [message] = await b.store.claim([seq], TERMS);
  if (message === undefined) throw new Error('not claimed');
  const put = {
    kind: 'rejected_transient',
    failure: { class: 'provider_unavailable', code: 'http_503' },
  } as const;
  expect((await b.store.complete([completionOf(message, put)])).size).toBe(1);
  await b.cancel([seq], () => {});
  expect((await b.store.complete([completionOf(message, put)])).size).toBe(0);
  expect(await b.stateOf(seq)).toBe('canceled');
});

test('a batch of attempts that end and defer messages locks them in the order of a cancellation', async () => {
  await using b = await setup();
  const [earlier = 0, later = 0] = (await b.accept(2)).toSorted((one, other) => one - other);
  const claimed = new Map((await b.store.claim([earlier, later], TERMS)).map((one) => [one.seq, one]));
  const completion = (seq: number, outcome: AttemptOutcome) =>
    completionOf(claimed.get(seq) as ClaimedMessage, outcome);
  let completing: ReturnType<typeof b.store.complete> | undefined;
  await b.admin.begin(async (tx) => {
    await tx`select from despatch.live_messages where seq = ${earlier} for update`;
    completing = b.store.complete([
      completion(later, { kind: 'accepted', providerMessageId: 'p-1' }),
      completion(earlier, {
        kind: 'rejected_transient',
        failure: { class: 'provider_unavailable', code: 'http_503' },
      }),
    ]);
    await b.waiting(1);
    // The later one is not locked yet, so a cancellation that holds the earlier one goes on.
    await tx`select from despatch.live_messages where seq = ${later} for update nowait`;
  });
  expect(await completing).toEqual(new Set([earlier, later]));
});

test("another tenant's messages are neither found nor canceled", async () => {
  await using b = await setup();
  const [seq = 0] = await b.accept(1);
  const stranger = await seedTenant(b.admin);
  expect((await b.cancel([seq], (found) => found, stranger.tenantId)).size).toBe(0);
  expect(await b.stateOf(seq)).toBe('queued');
});

test('cancels that race with the purge of their tenant leave no rows', async () => {
  await using b = await setup();
  const seqs = await b.accept(40);
  const { tenantId, slug } = b.tenant;
  await b.admin`update despatch.tenants set status = 'deleting', owner_uid = 'r-1' where id = ${tenantId}`;
  const canceling = Promise.all(seqs.map((seq) => b.cancel([seq], (found) => found.size)));
  let outcome: unknown;
  do {
    const [row] = await b.admin`select outcome from despatch.purge_some(${slug}, 'r-1', 7)`;
    outcome = row?.['outcome'];
  } while (outcome === 'deleted');
  await canceling;
  // The cancellation of a purged message leaves no rows.
  for (const table of ['live_messages', 'messages']) {
    expect(await b.admin`select from despatch.${b.admin(table)} where tenant_id = ${tenantId}`).toEqual([]);
  }
});

test('after concurrent claims, completions and cancels each message has one end', async () => {
  await using b = await setup();
  const seqs = await b.accept(120);
  const canceled = new Set<number>();
  const called = new Map<number, number>();
  const shuffled = () => seqs.toSorted(() => Math.random() - 0.5);
  const canceler = async (): Promise<void> => {
    for (const seq of shuffled()) {
      const found = await b.cancel([seq], (of) => of.get(seq));
      if (found === undefined || decideCancel(found) !== 'cancel') continue;
      // The cancellation has been committed and answered.
      expect(canceled.has(seq)).toBe(false);
      canceled.add(seq);
      await sleep(Math.random() * 3);
    }
  };
  const worker = async (name: string): Promise<void> => {
    for (const seq of shuffled()) {
      const [message] = await b.store.claim([seq], { ...TERMS, worker: name });
      if (message === undefined) continue;
      expect(canceled.has(seq), `${seq} is claimed after it was canceled`).toBe(false);
      called.set(seq, (called.get(seq) ?? 0) + 1);
      const outcome =
        Math.random() < 0.5
          ? ({ kind: 'accepted', providerMessageId: `p-${seq}` } as const)
          : ({ kind: 'not_started', reason: 'shutdown' } as const);
      await b.store.complete([completionOf(message, outcome)]);
    }
  };
  await Promise.all([canceler(), canceler(), worker('w1'), worker('w2'), worker('w3')]);
  expect(canceled.size).toBeGreaterThan(0);
  expect(called.size).toBeGreaterThan(0);
  const rows = await b.admin<
    { seq: number; status: MessageState; results: number; live: number; events: number }[]
  >`
    select s.seq, s.status, (select count(*)::int from despatch.message_results r where r.seq = s.seq) as results,
      (select count(*)::int from despatch.live_messages l where l.seq = s.seq) as live,
      (select count(*)::int from despatch.events e where e.message_seq = s.seq and e.type = 'message.canceled') as events
    from despatch.message_states s where s.tenant_id = ${b.tenant.tenantId}`;
  expect(rows).toHaveLength(seqs.length);
  for (const { seq, status, results, live, events } of rows) {
    expect(results + live).toBe(1);
    expect([status === 'canceled', events]).toEqual(canceled.has(seq) ? [true, 1] : [false, 0]);
  }
  const left = rows.filter(({ live }) => live === 1).length;
  expect((await b.gauges.messageTotals()).backlog).toBe(left);
});
