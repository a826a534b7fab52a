// The bench's access to the delivery tables: fills them, counts in them, and writes to them row by row.
import { randomUUID } from 'node:crypto';
import { DAY_MS } from '#core/domain/text/duration.ts';
import type { MessageId } from '#core/domain/storage/ids.ts';
import { createMessageIds, type MessagePlace } from '#core/domain/storage/message-id.ts';
import { purgeDay } from '#core/domain/storage/purge-day.ts';
import type { Json, Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { AcceptRow, Verdict } from '#core/store/messages/acceptance.ts';
import { loadMessageIdKey, SEQS_PER_BLOCK } from '#core/store/messages/message-places.ts';

// Counting ---------------------------------------------------------------------------------------------------------

export async function countMessages(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from messages`;
  return row?.n ?? 0;
}

/** Counts the messages whose outcome is recorded. */
export async function countFinished(sql: Sql): Promise<number> {
  const [row] = await sql<
    { n: number }[]
  >`select coalesce(sum(finished), 0)::bigint as n from tenant_progress`;
  return row?.n ?? 0;
}

export type StoredMessage = {
  readonly id: string;
  readonly tenantId: string;
  readonly enqueuedAt: string;
  readonly seq: number;
};

/** Of few messages, a tenth would be less than a few pages. */
const OLDEST_MIN = 5_000;

/**
 * Returns random messages: of all; of tenants with at least `rows` messages; or of the oldest tenth, with at least `rows` older
 * messages of the same tenant.
 */
export async function sampleMessages(
  sql: Sql,
  count: number,
  kind: { readonly of: 'all' } | { readonly of: 'tenants' | 'oldest'; readonly rows: number },
): Promise<StoredMessage[]> {
  const [bounds] = await sql<{ first: number; last: number }[]>`
    select min(seq) as first, max(seq) as last from messages`;
  const { first, last } = { first: 0, last: 0, ...bounds };
  // Samples forty times as many rows as needed by page, because reading all rows would take longer than the measurement.
  const percent = Math.min(100, (count * 40 * 100) / (last - first + 1));
  const until = kind.of === 'oldest' ? first + Math.max(OLDEST_MIN, (last - first) / 10) : last;
  const older = kind.of === 'oldest' ? sql`and (o.enqueued_at, o.seq) < (m.enqueued_at, m.seq)` : sql``;
  const enough =
    kind.of === 'all'
      ? sql``
      : sql`where ${kind.rows} = (select count(*) from (
          select from messages o where o.tenant_id = m.tenant_id ${older} limit ${kind.rows}) page)`;
  const rows = await sql<{ id: string; tenant_id: string; enqueued_at: Date; seq: number }[]>`
    with drawn as materialized (
      select id, tenant_id, enqueued_at, seq from messages tablesample system (${percent}::float8)
      where seq <= ${Math.ceil(until)} order by random()
    )
    select id, tenant_id, enqueued_at, seq from drawn m ${enough} limit ${count}`;
  return rows.map((row) => ({
    id: row.id,
    tenantId: row.tenant_id,
    enqueuedAt: row.enqueued_at.toISOString(),
    seq: row.seq,
  }));
}

// Filling ------------------------------------------------------------------------------------------------------------

export type PreloadOptions = {
  readonly tenantIds: readonly string[];
  /** Rises to 1; a tenant's share is the difference to the one before. */
  readonly cumulativeShares: readonly number[];
  readonly messages: number;
};

const PRELOAD_AT_ONCE = 100 * SEQS_PER_BLOCK;
const PRELOAD_DAYS = 30;
const RETENTION_DAYS = 90;

export type Placed = MessagePlace & { readonly id: MessageId };

/**
 * Returns positions and ids as the api assigns them, for messages accepted at these times (milliseconds since the epoch,
 * ascending).
 */
export async function placeMessages(sql: Sql, times: readonly number[]): Promise<Placed[]> {
  const ids = createMessageIds(await loadMessageIdKey(sql));
  const blocks = await sql<{ first: number }[]>`
    select (reserve_message_seqs()).first_seq as first
    from generate_series(1, ${Math.ceil(times.length / SEQS_PER_BLOCK)}::int) order by 1`;
  return times.map((at, i) => {
    const first = blocks[Math.floor(i / SEQS_PER_BLOCK)]?.first ?? 0;
    const place = { seq: first + (i % SEQS_PER_BLOCK), purgeOn: purgeDay(at, RETENTION_DAYS) };
    return { ...place, id: ids.encode(place) };
  });
}

/** Writes a history: delivered messages of the past month with attempt and events, and one in a hundred waiting for a retry. */
export async function preloadMessages(sql: Sql, options: PreloadOptions): Promise<void> {
  const { tenantIds, cumulativeShares, messages } = options;
  const begin = Date.now() - PRELOAD_DAYS * DAY_MS;
  const stepMs = (PRELOAD_DAYS * DAY_MS) / messages;
  for (let from = 0; from < messages; from += PRELOAD_AT_ONCE) {
    const count = Math.min(PRELOAD_AT_ONCE, messages - from);
    const times = Array.from({ length: count }, (_, i) => begin + (from + i) * stepMs);
    const placed = await placeMessages(sql, times);
    await sql`
      with fresh as materialized (
        select p.seq, p.purge_on, p.id, p.at, ${from}::bigint + p.i - 1 as n, (${from}::bigint + p.i - 1) % 100 = 0 as waits,
          (${[...tenantIds]}::uuid[])[1 + width_bucket(random(), ${[...cumulativeShares]}::float8[])] as tenant
        from unnest(${placed.map(({ seq }) => seq)}::bigint[], ${placed.map(({ purgeOn }) => purgeOn)}::date[],
          ${placed.map(({ id }) => id)}::uuid[], ${times.map((at) => new Date(at).toISOString())}::timestamptz[])
          with ordinality as p (seq, purge_on, id, at, i)
      ), stored as (
        insert into messages (seq, purge_on, id, tenant_id, channel, recipient, address, content, external_id, category,
          priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
        select seq, purge_on, id, tenant, 'sms', '+15550000000', '+15550000000',
          json_build_object('body', 'm' || n || ' Your parcel is on its way and will reach you between nine and noon.'),
          'order-' || n, 'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain',
          json_build_object('order', n::text), '["parcel"]', at
        from fresh order by seq
      ), live as (
        insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
          segments, attempt, retries, provider, next_attempt_at, expires_at, updated_at)
        select f.seq, f.purge_on, f.tenant, p.id, now() + interval '1 day', 'deferred', 1, 'sms', false, false, 1, 1, 1,
          'twilio', now() + interval '1 day', now() + interval '2 days', f.at
        from fresh f join provider_accounts p on p.tenant_id = f.tenant where f.waits order by f.seq
      ), results as (
        insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, account_id, provider,
          provider_message_id, final, expires_at, sent_at, delivered_at, completed_at, updated_at, event_seq, started_at,
          worker, http_status)
        select f.seq, f.purge_on, f.tenant, 'delivered', 1, false, p.id, 'twilio', 'SM' || f.id, true,
          f.at + interval '2 days', f.at, f.at, f.at, f.at, nextval('event_seq'), f.at, 0, 201
        from fresh f join provider_accounts p on p.tenant_id = f.tenant where not f.waits order by f.seq
      ), tried as (
        insert into attempt_log (message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome,
          http_status, started_at, ended_at, message_status)
        select f.seq, f.purge_on, 1, f.tenant, p.id, 'twilio', 0, 'rejected_transient', 503,
          f.at, f.at, 'deferred'
        from fresh f join provider_accounts p on p.tenant_id = f.tenant where f.waits order by f.seq
      ), logged as (
        insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
        select seq, purge_on, tenant, 'message.delivered', 'receipt', at from fresh where not waits order by seq
      ), used as (
        update tenant_usage u set accepted = u.accepted + f.n
        from (select tenant, count(*) as n from fresh group by 1) f where u.tenant_id = f.tenant
      )
      update tenant_progress p set finished = p.finished + f.n
      from (select tenant, count(*) as n from fresh where not waits group by 1) f where p.tenant_id = f.tenant`;
  }
}

/** Brings the tables into the state of a database that has been in use for a while. */
export async function settleTables(sql: Sql): Promise<void> {
  await sql`vacuum (analyze) messages, live_messages, message_results, attempt_log, event_log, tenant_usage, tenant_progress`;
  await sql`checkpoint`;
}

// One message a transaction --------------------------------------------------------------------------------------------

/** The checks and rows of the accept function, written in the usual way: one statement after the other. */
export async function acceptOne(tx: TransactionSql, row: AcceptRow): Promise<Verdict> {
  const refuse = (
    verdict: Verdict['verdict'],
    retryAfter: number | null,
    response: unknown = null,
  ): Verdict => ({
    verdict,
    response,
    retryAfter,
    remaining: 0,
  });
  const { scope, fingerprint } = row;
  if (scope !== null && fingerprint !== null) {
    const [taken] = await tx<{ same: boolean; response: unknown }[]>`
      select fingerprint = decode(${fingerprint}, 'hex') as same, response
      from claim_idempotency(array[decode(${scope}, 'hex')], array[${row.tenant_id}::uuid], array[decode(${fingerprint}, 'hex')])`;
    if (taken !== undefined) return refuse(taken.same ? 'replayed' : 'mismatch', null, taken.response);
  }
  const [rate] = await tx<{ passed: number; remaining: number; retry_after: number }[]>`
    select * from take_rate(${row.api_key_id}, ${row.rate_per_minute}, 1)`;
  if (rate?.passed !== 1) return refuse('rate_limited', rate?.retry_after ?? 1);
  const [usage] = await tx`
    update tenant_usage u set day = (now() at time zone 'UTC')::date, accepted = accepted + 1,
      used = case when day = (now() at time zone 'UTC')::date then used else 0 end + 1
    where tenant_id = ${row.tenant_id}
      and (day < (now() at time zone 'UTC')::date or used < ${row.messages_per_day})
      and accepted - coalesce((select finished from tenant_progress p where p.tenant_id = u.tenant_id), 0) < ${row.backlog_max}
    returning 1`;
  if (usage === undefined) return refuse('daily_limit_reached', 1);
  await tx`
    insert into messages (seq, purge_on, id, tenant_id, api_key_id, channel, recipient, address, sender, content,
      external_id, category, priority, test, pinned_account_id, segments, encoding, delivery_guarantee,
      content_retention, metadata, tags, traceparent, request_id, enqueued_at)
    values (${row.seq}, ${row.purge_on}, ${row.id}, ${row.tenant_id}, ${row.api_key_id}, ${row.channel},
      ${row.recipient}, ${row.address}, ${row.sender}, ${tx.json(row.content as Json)}, ${row.external_id},
      ${row.category}, ${row.priority}, ${row.test}, ${row.pinned_account_id}, ${row.segments}, ${row.encoding},
      ${row.delivery_guarantee}, ${row.content_retention}, ${tx.json(row.metadata as Json)}, ${tx.json(row.tags)},
      ${row.traceparent}, ${row.request_id}, ${row.enqueued_at})`;
  await tx`
    insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      segments, expires_at, updated_at)
    values (${row.seq}, ${row.purge_on}, ${row.tenant_id}, ${row.account_id}, now() + interval '5 seconds', 'queued',
      ${row.priority}, ${row.channel}, ${row.test}, ${row.pinned_account_id !== null}, ${row.segments},
      coalesce(now() + make_interval(secs => ${row.lifetime_ms ?? null}::float8 / 1000), ${row.expires_at}), ${row.enqueued_at})`;
  if (scope !== null) {
    await tx`select store_idempotent_response(array[decode(${scope}, 'hex')], array[202::smallint],
      array[${tx.json(row.response as Json)}::json], array[null::bytea])`;
  }
  return {
    verdict: 'accepted',
    response: row.response,
    retryAfter: null,
    remaining: rate.remaining,
  };
}

// The plain table --------------------------------------------------------------------------------------------------------
// One table with the columns of `messages`, for the floors and for libraries that bring a queue and no messages.

export type PlainMessage = { readonly to: string; readonly body: string; readonly externalId: string };

export async function createPlainTable(sql: Sql): Promise<void> {
  await sql`create schema bench`;
  await sql`create table bench.messages (like despatch.messages including defaults)`;
  await sql`create sequence bench.message_seq`;
  await sql`alter table bench.messages add primary key (id), add column status text not null default 'queued',
    alter seq set default nextval('bench.message_seq')`;
  await sql`create index on bench.messages (tenant_id, enqueued_at desc, seq desc)`;
  await sql`create index on bench.messages (tenant_id, external_id)`;
}

/** Inserts a batch by one statement; each column travels as one array. @returns the ids in order. */
export async function insertPlain(
  sql: Sql | TransactionSql,
  rows: readonly PlainMessage[],
): Promise<string[]> {
  const ids = rows.map(() => randomUUID());
  await sql`
    insert into bench.messages (id, purge_on, tenant_id, channel, recipient, address, content, external_id, category,
      priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
    select u.id, now()::date + 90, ${PLAIN_TENANT}, 'sms', u.address, u.address, u.content::json, u.external_id,
      'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain', '{"region": "eu-central"}', '["parcel"]', now()
    from unnest(${ids}::uuid[], ${rows.map((row) => row.to)}::text[],
      ${rows.map((row) => JSON.stringify({ body: row.body }))}::text[], ${rows.map((row) => row.externalId)}::text[])
      as u (id, address, content, external_id)`;
  return ids;
}

/** Inserts the same row and a graphile-worker job by one statement, so that neither exists without the other. */
export async function insertPlainWithJob(sql: Sql, { to, body, externalId }: PlainMessage): Promise<string> {
  const id = randomUUID();
  await sql`
    with stored as (
      insert into bench.messages (id, purge_on, tenant_id, channel, recipient, address, content, external_id, category,
        priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
      values (${id}, now()::date + 90, ${PLAIN_TENANT}, 'sms', ${to}, ${to}, ${sql.json({ body })}, ${externalId},
        'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain', '{"region": "eu-central"}', '["parcel"]', now())
    )
    select id from graphile_worker.add_job('send', ${sql.json({ id, to, body })}::json)`;
  return id;
}

export async function finishPlain(sql: Sql, ids: readonly string[]): Promise<void> {
  await sql`update bench.messages set status = 'sent' where id = any (${[...ids]}::uuid[])`;
}

export async function countPlain(sql: Sql): Promise<{ stored: number; finished: number }> {
  const [row] = await sql<{ stored: number; finished: number }[]>`
    select count(*) as stored, count(*) filter (where status = 'sent') as finished from bench.messages`;
  return { stored: row?.stored ?? 0, finished: row?.finished ?? 0 };
}

const PLAIN_TENANT = randomUUID();
