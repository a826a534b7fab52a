import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { asJson, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { managedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { leftoversOf } from '#test/support/tenant-leftovers.ts';
import { setupStores } from '#test/support/setup-stores.ts';

/** Sets up a tenant whose purge has begun, with one message, and the actions that race with the purge. */
async function setup() {
  const stores = await setupStores();
  const { admin, api, worker, store } = stores;
  await admin`set search_path = despatch`;
  const tenant = await seedTenant(admin);
  const accountId = await seedAccount(admin, tenant.tenantId, { provider: 'twilio' });
  const row = acceptRow(tenant);
  await acceptBatch(api, [row]);
  const owned = { slug: tenant.slug, uid: 'u' };
  const controller = managedTenantStore(admin, 'https://issuer.test', () => undefined);

  async function waiting(sessions: number): Promise<void> {
    await expect.poll(() => lockWaits(admin)).toHaveLength(sessions);
  }
  const purgeSome = (sql: Pick<TransactionSql, 'unsafe'>) =>
    sql.unsafe(`select outcome from despatch.purge_some('${owned.slug}', 'u', 100)`);

  return {
    admin,
    worker,
    store,
    tenant,
    accountId,
    row,
    waiting,
    async begin(): Promise<void> {
      await admin`update despatch.tenants set owner_uid = 'u', owner_ref = 'n/t' where id = ${tenant.tenantId}`;
      await controller.beginPurge({ ...owned, ref: 'n/t', createdAt: '2026-01-01T00:00:00Z' });
      await backdatePurge(admin, tenant.slug);
    },
    /** Moves the message to `message_results`, as when it was sent. */
    async send(): Promise<void> {
      await admin`
        with gone as (delete from despatch.live_messages where seq = ${row.seq} returning *)
        insert into despatch.message_results (seq, purge_on, tenant_id, account_id, provider, status, attempt, started_at, sent_at,
          duplicate_risk, final, expires_at, updated_at)
        select g.seq, g.purge_on, g.tenant_id, g.account_id, 'twilio', 'sent', 1, now(), now(), false, false, g.expires_at, now()
        from gone g`;
    },
    /** Purges the message and runs `beside` before the commit; `beside` must wait for the commit. */
    async purgeWhile(beside: () => Promise<unknown>): Promise<void> {
      let pending: Promise<unknown> | undefined;
      await admin.begin(async (tx) => {
        expect(await purgeSome(tx)).toMatchObject([{ outcome: 'deleted' }]);
        pending = beside();
        await waiting(1);
      });
      await pending;
    },
    /** Runs `work` in a transaction for which the end of the purge must wait. */
    async endWhile(work: (tx: TransactionSql) => Promise<unknown>): Promise<void> {
      let ended: Promise<unknown> | undefined;
      await admin.begin(async (tx) => {
        await work(tx);
        ended = this.end();
        await waiting(1);
      });
      await ended;
    },
    async end(): Promise<void> {
      for (;;) {
        const { outcome } = await controller.purgeSome(owned, 100);
        if (outcome === 'empty' && (await controller.endPurge(owned))) return;
      }
    },
    leftovers: () => leftoversOf(admin, tenant.tenantId),
    [Symbol.asyncDispose]: () => stores[Symbol.asyncDispose](),
  };
}

test.each(['its own id', "the provider's id"])(
  'a receipt that is applied while its message is purged leaves no event log: found by %s',
  async (by) => {
    await using b = await setup();
    await b.send();
    const { seq, purge_on: day } = b.row;
    await b.admin`update despatch.message_results set provider_message_id = 'SM1', found_by_id = true`;
    await b.admin`
      insert into despatch.receipts (tenant_id, account_id, message_seq, purge_on, provider_message_id, receipt, apply_at)
      values (${b.tenant.tenantId}, ${b.accountId}, ${by === 'its own id' ? seq : null}, ${by === 'its own id' ? day : null},
        'SM1', 'delivered', now())`;
    await b.begin();
    await b.purgeWhile(async () => {
      const { results } = await b.store.applyReceipts(10, decideReceipts);
      // The message is purged, so the receipt matches nothing.
      expect(results).toMatchObject([{ result: 'waiting' }]);
    });
    expect(await b.leftovers()).not.toHaveProperty('event_log');
    await b.end();
    expect(await b.leftovers()).toEqual({});
  },
);

test('a completion after its lease expired, concurrent with a purge, leaves no receipt', async () => {
  await using b = await setup();
  const [message] = await b.store.claim([b.row.seq], { worker: 'w', leaseMs: 60_000 });
  if (message === undefined) throw new Error('nothing was claimed');
  // Another worker reclaimed the message after the lease expired, and sent it.
  await b.send();
  await b.admin`
    insert into despatch.attempt_log (message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome, started_at, ended_at,
      message_status)
    select seq, purge_on, 1, tenant_id, account_id, 'twilio', 1, 'ambiguous', now(), now(), 'deferred' from despatch.message_results`;
  await b.begin();
  const late = () =>
    b.store.complete([
      completionOf(
        message,
        { kind: 'accepted', providerMessageId: 'SM1', receipts: [] },
        { receiptsExpected: true },
      ),
    ]);
  await b.purgeWhile(late);
  expect(await b.leftovers()).not.toHaveProperty('receipts');
});

test('a status lookup that is settled concurrently with a purge leaves no receipt', async () => {
  await using b = await setup();
  await b.send();
  await b.begin();
  const report = {
    message_seq: b.row.seq,
    purge_on: b.row.purge_on,
    message_id: b.row.id,
    provider_message_id: 'SM1',
    receipt: 'delivered' as const,
    temporary: undefined,
    failure: undefined,
    segment: undefined,
    engagement: undefined,
    provider_status: 'delivered',
    verified: true,
    happened_ms: Date.now(),
    report_key: 'k',
    tenant_id: b.tenant.tenantId,
    account_id: b.accountId,
    received_ms: Date.now(),
  };
  await b.purgeWhile(() =>
    b.store.settleLookups({ reports: [report], found: [], done: [], again: [], turns: [] }),
  );
  expect(await b.leftovers()).not.toHaveProperty('receipts');
});

test("a provider's receipt call that is settled as the purge ends leaves no rows", async () => {
  await using b = await setup();
  await b.begin();
  await b.admin`
    insert into despatch.receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
    values (${b.tenant.tenantId}, ${b.accountId}, 'POST', 1, '', '{}', '', now(), now())`;
  const [call] = await b.admin<{ id: number }[]>`select id from despatch.receipt_calls`;
  await b.endWhile(async (tx) => {
    const reports = [{ call_id: call?.id, provider_message_id: 'SM1', receipt: 'delivered', verified: true }];
    await tx`select despatch.settle_receipt_calls(${asJson(tx, reports)}, '{}', ${[Number(call?.id)]}::bigint[], '[]', '{}', '[]')`;
  });
  expect(await b.leftovers()).toEqual({});
});

test('a brake that is applied as the purge ends leaves no rows', async () => {
  await using b = await setup();
  await b.admin`
    insert into despatch.brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
    values (${b.tenant.tenantId}, 'sms', 'slowed', 'hard_bounce_rate', 0.1, 0.05, now(), 1, now())`;
  const decided = [
    {
      tenantId: b.tenant.tenantId,
      channel: 'sms',
      level: 'held',
      reason: 'hard_bounce_rate',
      rate: 0.2,
      bound: 0.1,
      gapMs: 1,
      liftedAt: null,
    },
  ];
  let purged: Promise<void> | undefined;
  await b.admin.begin(async (tx) => {
    expect(await tx`select despatch.apply_brakes(${asJson(tx, decided)})`).toHaveLength(1);
    await b.begin();
    purged = b.end();
    await b.waiting(1);
  });
  await purged;
  expect(await b.leftovers()).toEqual({});
});

test('a request that commits as the purge ends leaves no idempotency key and no audit row', async () => {
  await using b = await setup();
  await b.begin();
  const scope = randomUUID().replaceAll('-', '').repeat(2);
  await b.endWhile(async (tx) => {
    await tx`select set_config('app.tenant', ${b.tenant.tenantId}, true)`;
    await tx`insert into despatch.idempotency_keys (scope, generation, tenant_id, fingerprint)
      values (decode(${scope}, 'hex'), current_date, ${b.tenant.tenantId}, '\\x00')`;
    await tx`insert into despatch.audit_log (tenant_id, actor, action, target)
      values (${b.tenant.tenantId}, 'u', 'messages.canceled', 't')`;
  });
  expect(await b.leftovers()).toEqual({});
});

test('a redelivery that is requested as the purge ends leaves no rows', async () => {
  await using b = await setup();
  const { tenantId } = b.tenant;
  const [endpoint] = await b.admin<{ id: string }[]>`
    insert into despatch.webhook_endpoints (tenant_id, url, event_types, secret, matched_to)
    values (${tenantId}, 'https://hooks.test/', '{*}', 's', 0) returning id`;
  const id = endpoint?.id ?? '';
  await b.admin`
    insert into despatch.endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
    values (1, 1, 1, now(), ${id}, ${tenantId}, current_date + 30, '{1}', '{0}')`;
  await b.begin();
  await b.endWhile(async (tx) => {
    await tx`select set_config('app.tenant', ${tenantId}, true)`;
    await tx`select despatch.redeliver_event(${tenantId}, ${id}, 1)`;
  });
  expect(await b.leftovers()).toEqual({});
});
