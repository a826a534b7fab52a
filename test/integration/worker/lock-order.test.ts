import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { asJson } from '#core/platform/postgres/postgres.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from '#test/support/seed.ts';
import { setupWebhooks } from '#test/support/setup-webhooks.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const TIMEOUT_MS = 72 * 3_600_000;

type Stores = Awaited<ReturnType<typeof setupStores>>;

/** Makes every update of a row in the table take half a second, so that locks are held between rows. */
async function slowDown({ admin }: Stores, table: string): Promise<void> {
  await admin`create function public.slow() returns trigger language plpgsql as
    'begin perform pg_sleep(0.5); return new; end'`;
  await admin`create trigger slow before update on ${admin(table)} for each row execute function public.slow()`;
}

async function endsOf(sessions: readonly (() => Promise<unknown>)[]): Promise<string[]> {
  return (await Promise.allSettled(sessions.map((run) => run()))).map(({ status }) => status);
}

async function waitingFor(admin: Stores['admin'], sessions: number): Promise<void> {
  await expect.poll(() => lockWaits(admin)).toHaveLength(sessions);
}

async function twoAccounts(stores: Stores): Promise<[string, string]> {
  const { tenantId } = await seedTenant(stores.admin);
  const ids = [
    await seedAccount(stores.admin, tenantId, { provider: 'twilio' }),
    await seedAccount(stores.admin, tenantId, { provider: 'twilio' }),
  ].toSorted();
  return [ids[0] as string, ids[1] as string];
}

test('workers that settle receipt calls of the same accounts in opposite order do not deadlock', async () => {
  await using stores = await setupStores();
  const [a, b] = await twoAccounts(stores);
  const settle = (genuine: string, forged: string) => () =>
    stores.store.settleReceiptCalls({
      reports: [],
      begun: [],
      done: [],
      again: [],
      genuine: [genuine],
      refused: [{ account_id: forged, reason: 'signature_mismatch' }],
    });
  await slowDown(stores, 'despatch.provider_accounts');
  const ended = await endsOf([settle(a, b), settle(b, a)]);
  expect(ended).toEqual(['fulfilled', 'fulfilled']);
});

test('completions of which some end and others return lock the counters of all their tenants in order', async () => {
  await using stores = await setupStores();
  const { admin } = stores;
  const tenants = [await seedTenant(admin), await seedTenant(admin)].toSorted((a, b) =>
    a.tenantId < b.tenantId ? -1 : 1,
  );
  const batch: object[] = [];
  for (const [n, tenant] of tenants.entries()) {
    const accountId = await seedAccount(admin, tenant.tenantId);
    const row = acceptRow(tenant);
    await acceptBatch(stores.api, [row]);
    const lane = { tenantId: tenant.tenantId, accountId, most: 1, aheadMs: 60_000 };
    const [claimed] = await stores.store.claimDue([lane], { worker: 'w1', leaseMs: 60_000 });
    const end = n === 0 ? { status: 'deferred', returns: true, next_attempt_ms: 60_000 } : { status: 'sent' };
    const outcome = n === 0 ? 'rejected_permanent' : 'accepted';
    const { seq, purge_on } = row;
    const counts = { retries: 0, ambiguous: 0, provider_waits: 0, duplicate_risk: false };
    batch.push({ seq, purge_on, attempt: claimed?.attempt, outcome, final: false, ...counts, ...end });
  }
  const [first = '', second = ''] = tenants.map(({ tenantId }) => tenantId);
  const locked = await admin.reserve();
  await locked`begin`;
  await locked`select despatch.lock_counters('finished', ${[first]}::uuid[])`;
  const completing = admin`select despatch.complete(${asJson(admin, batch)}, true) as seq`.execute();
  await waitingFor(admin, 1);
  const free = await locked`select from despatch.counter_locks
    where counter = 'finished' and owner = ${second} for update nowait`;
  expect(free).toHaveLength(1);
  await locked`commit`;
  locked.release();
  expect(await completing).toHaveLength(2);
});

test('workers that settle lookups of the same accounts in opposite order do not deadlock', async () => {
  await using stores = await setupStores();
  const [a, b] = await twoAccounts(stores);
  await stores.admin`insert into despatch.lookup_turns (account_id, provider, next_at, open_at)
    values (${a}, 'twilio', now(), now()), (${b}, 'twilio', now(), now())`;
  const settle = (accounts: readonly string[]) => () =>
    stores.store.settleLookups({
      reports: [],
      found: [],
      done: [],
      again: [],
      turns: accounts.map((account_id) => ({ account_id, turn: 0, failures: 0, pause_ms: 0 })),
    });
  await slowDown(stores, 'despatch.lookup_turns');
  const ended = await endsOf([settle([a, b]), settle([b, a])]);
  expect(ended).toEqual(['fulfilled', 'fulfilled']);
});

test('a purge locks results in the same order as receipts, across partitions', async () => {
  await using stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  // The later message is in the earlier partition.
  const rows = [acceptRow(tenant, { retention_days: 60 }), acceptRow(tenant, { retention_days: 7 })];
  await acceptBatch(stores.api, rows);
  await stores.admin`with gone as (delete from despatch.live_messages returning *)
    insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    select g.seq, g.purge_on, g.tenant_id, 'sent', 1, false, false, g.expires_at, now() from gone g`;
  await stores.admin`update despatch.tenants set status = 'deleting', owner_uid = 'u' where id = ${tenant.tenantId}`;
  let purged: Promise<unknown> | undefined;
  await stores.admin.begin(async (tx) => {
    const lock = (seq: number | undefined) =>
      tx`select from despatch.message_results where seq = ${seq ?? 0} for update`;
    await lock(rows[0]?.seq);
    purged =
      stores.admin`select outcome, deleted from despatch.purge_some(${tenant.slug}, 'u', 100)`.execute();
    await waitingFor(stores.admin, 1);
    await lock(rows[1]?.seq);
  });
  expect(await purged).toMatchObject([{ outcome: 'deleted', deleted: 2 }]);
});

/** A message that is settled with the given status, and that waits for a receipt until now. */
async function awaitedMessage({ admin }: Stores, status: 'sent' | 'unknown') {
  const tenant = await seedTenant(admin);
  const row = acceptRow(tenant);
  await acceptBatch(admin, [row]);
  const { seq } = row;
  const [result] =
    await admin`with gone as (delete from despatch.live_messages where seq = ${seq} returning *)
    insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    select g.seq, g.purge_on, g.tenant_id, ${status}, 1, false, false, g.expires_at, now() from gone g
    returning purge_on::text as day`;
  const day = String(result?.['day']);
  await admin`insert into despatch.awaited_receipts (seq, purge_on, tenant_id, due_at)
    values (${seq}, ${day}, ${tenant.tenantId}, now())`;
  return { tenantId: tenant.tenantId, seq, day };
}

/** Begins to end the waits while a receipt that changes the message is being applied, and returns what is left when both are done. */
async function expireBeside(
  stores: Stores,
  { tenantId, seq, day }: Awaited<ReturnType<typeof awaitedMessage>>,
  change: object,
) {
  await stores.admin`insert into despatch.receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
    values (${tenantId}, ${seq}, ${day}, 1, 'sent', now())`;
  const report = { seq, purge_on: day, final: false, partial: false, late_bounce: false, ...change };
  let expiring: ReturnType<typeof stores.store.expireReceipts> | undefined;
  await stores.admin.begin(async (tx) => {
    const [due] = await tx`select id from despatch.lock_receipts(10, 100, '{}')`;
    expiring = stores.store.expireReceipts(10, [], TIMEOUT_MS);
    await waitingFor(stores.admin, 1);
    await tx`select despatch.record_receipts(${asJson(tx, [report])}, '[]', array[${day}::date], '[]',
      ${[String(due?.['id'])]}::uuid[], '[]')`;
  });
  const ended = await expiring;
  const [state] = await stores.admin`select status from despatch.message_states where seq = ${seq}`;
  const waits = await stores.admin`
    select round(extract(epoch from due_at - now()) / 3600)::int as hours from despatch.awaited_receipts`;
  return { ended, status: state?.['status'] as unknown, hours: waits.map(({ hours }) => Number(hours)) };
}

test('a receipt applied during the receipt timeout counts and causes no deadlock', async () => {
  await using stores = await setupStores();
  const message = await awaitedMessage(stores, 'sent');
  expect(await expireBeside(stores, message, { status: 'delivered', final: true })).toEqual({
    ended: { seen: 1, silent: [] },
    status: 'delivered',
    hours: [],
  });
});

test('a receipt that proves a call while the wait for it ends leaves the message sent, and the next one is awaited', async () => {
  await using stores = await setupStores();
  const message = await awaitedMessage(stores, 'unknown');
  expect(await expireBeside(stores, message, { status: 'sent', await_ms: TIMEOUT_MS })).toEqual({
    ended: { seen: 1, silent: [] },
    status: 'sent',
    hours: [72],
  });
});

test('a receipt that proves a call while it ends its lookups leaves the message sent, and the next one is awaited', async () => {
  await using stores = await setupStores();
  const message = await awaitedMessage(stores, 'unknown');
  await stores.admin`delete from despatch.awaited_receipts`;
  await stores.admin`insert into despatch.lookups (seq, purge_on, tenant_id, account_id, since, ask_at, until_at)
    values (${message.seq}, ${message.day}, ${message.tenantId}, ${randomUUID()}, now(), 'infinity', now())`;
  expect(await expireBeside(stores, message, { status: 'sent', await_ms: TIMEOUT_MS })).toEqual({
    ended: { seen: 1, silent: [] },
    status: 'sent',
    hours: [72],
  });
});

/** A message of the tenant whose retention is over, and that waits; `wasSent`: for another account than the one that accepted it. */
async function outlivedMessage({ admin }: Stores, tenant: SeededTenant, { wasSent }: { wasSent: boolean }) {
  const row = acceptRow(tenant);
  await acceptBatch(admin, [row]);
  await admin`update despatch.live_messages set purge_on = current_date, sent_attempt = ${wasSent ? 1 : null}
    where seq = ${row.seq}`;
  return row.seq;
}

test('the end of messages that have outlived their retention locks those of both kinds in order', async () => {
  await using stores = await setupStores();
  const { admin, store } = stores;
  const tenant = await seedTenant(admin);
  const seqs = [
    await outlivedMessage(stores, tenant, { wasSent: true }),
    await outlivedMessage(stores, tenant, { wasSent: false }),
  ];
  let ending: ReturnType<typeof store.endOutlived> | undefined;
  await admin.begin(async (tx) => {
    const lock = (seq: number | undefined) =>
      tx`select from despatch.live_messages where seq = ${seq ?? 0} for update`;
    await lock(seqs[0]);
    ending = store.endOutlived({ readsMax: 10, most: 10 });
    await waitingFor(admin, 1);
    await lock(seqs[1]);
  });
  expect(await ending).toBe(2);
});

test('the end of messages that have outlived their retention locks the counters of all their tenants in order', async () => {
  await using stores = await setupStores();
  const { admin, store } = stores;
  const [first, second] = [await seedTenant(admin), await seedTenant(admin)].toSorted((a, b) =>
    a.tenantId < b.tenantId ? -1 : 1,
  ) as [SeededTenant, SeededTenant];
  await outlivedMessage(stores, first, { wasSent: true });
  await outlivedMessage(stores, second, { wasSent: false });
  let ending: ReturnType<typeof store.endOutlived> | undefined;
  await admin.begin(async (tx) => {
    const lock = ({ tenantId }: SeededTenant) =>
      tx`select despatch.lock_counters('finished', ${[tenantId]}::uuid[])`;
    await lock(first);
    ending = store.endOutlived({ readsMax: 10, most: 10 });
    await waitingFor(admin, 1);
    await lock(second);
  });
  expect(await ending).toBe(2);
});

test('a result that is stored while lock_receipts waits is reported as under way', async () => {
  await using stores = await setupStores();
  const tenant = await seedTenant(stores.admin);
  const rows = [acceptRow(tenant), acceptRow(tenant)] as const;
  await acceptBatch(stores.api, rows);
  const [{ seq: settled }, { seq: underWay }] = rows;
  const storeResult = (seq: number) => stores.admin`
    with gone as (delete from despatch.live_messages where seq = ${seq} returning *)
    insert into despatch.message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    select g.seq, g.purge_on, g.tenant_id, 'sent', 1, false, false, g.expires_at, now() from gone g`;
  await stores.admin`update despatch.live_messages set status = 'sending', attempt = 1 where seq = ${underWay}`;
  await storeResult(settled);
  await stores.admin`insert into despatch.receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
    select m.tenant_id, m.seq, m.purge_on, 1, 'delivered', now() from despatch.messages m`;
  await using locking = await reserved(stores.admin);
  await locking.sql`begin`;
  await locking.sql`select from despatch.message_results where seq = ${settled} for update`;
  const looked = stores.admin.begin(async (tx) => {
    const due = await tx`select seq, under_way from despatch.lock_receipts(10, 100, '{}') order by seq`;
    return due.map(({ seq, under_way: isUnderWay }) => [seq, isUnderWay]);
  });
  await waitingFor(stores.admin, 1);
  await storeResult(underWay);
  await locking.sql`commit`;
  const expected = [
    [settled, false],
    [underWay, true],
  ];
  expect(await looked).toEqual(expected.toSorted(([one], [other]) => Number(one) - Number(other)));
});

async function reserved(sql: Stores['admin']) {
  const connection = await sql.reserve();
  return {
    sql: connection,
    async [Symbol.asyncDispose]() {
      await connection`reset all`;
      connection.release();
    },
  };
}

test('deleting replaced secrets skips locked endpoints and accounts until the next pass', async () => {
  await using b = await setupWebhooks();
  const endpoints = [await b.endpoint(), await b.endpoint()].toSorted();
  const accounts = await twoAccounts(b);
  await b.admin`update despatch.webhook_endpoints set previous_secret = 's', previous_until = now() - interval '1 second'`;
  await b.admin`update despatch.provider_accounts set previous_ciphertext = 'c', previous_until = now() - interval '1 second'
    where id = any (${accounts})`;
  const left = async () => {
    const rows = await b.admin`
      select id from despatch.webhook_endpoints where previous_secret is not null
      union all select id from despatch.provider_accounts where previous_ciphertext is not null`;
    return rows.map(({ id }) => String(id)).toSorted();
  };
  const held = [endpoints[0] as string, accounts[0]];
  await b.admin.begin(async (tx) => {
    await tx`select from despatch.webhook_endpoints where id = any (${held}) for no key update`;
    await tx`select from despatch.provider_accounts where id = any (${held}) for no key update`;
    await b.store.forgetReplacedSecrets();
  });
  expect(await left()).toEqual(held.toSorted());
  await b.store.forgetReplacedSecrets();
  expect(await left()).toEqual([]);
});
