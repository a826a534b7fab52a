// What the bench knows of the delivery tables: to fill them, to count in them, and to write to them one by one.
import { randomUUID } from 'node:crypto';
import type { Json, Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { AcceptRow, Verdict } from '#core/store/acceptance.ts';

// Counting ---------------------------------------------------------------------------------------------------------

export async function countMessages(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from messages`;
  return row?.n ?? 0;
}

/** Messages whose outcome is recorded. */
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

/** Messages of all ages, or, with `oldest`, of the oldest tenth. */
export async function sampleMessages(sql: Sql, count: number, oldest: boolean): Promise<StoredMessage[]> {
  const [sequence] = await sql<{ last: number }[]>`select last_value as last from message_seq`;
  const last = sequence?.last ?? 1;
  // Forty times as many as are wanted, drawn by pages: reading all would take longer than the measurement.
  const percent = Math.min(100, (count * 40 * 100) / last);
  const rows = await sql<{ id: string; tenant_id: string; enqueued_at: Date; seq: number }[]>`
    select id, tenant_id, enqueued_at, seq from messages tablesample system (${percent}::float8)
    where seq <= ${Math.ceil(oldest ? last / 10 : last)} order by random() limit ${count}`;
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
  /** Rising to 1: a tenant's share is what it adds to the one before. */
  readonly cumulativeShares: readonly number[];
  readonly messages: number;
};

const PRELOAD_AT_ONCE = 100_000;
const PRELOAD_DAYS = 30;

/** A history: delivered messages of the past month with attempt and events, and one in a hundred waiting for a retry. */
export async function preloadMessages(sql: Sql, options: PreloadOptions): Promise<void> {
  const { tenantIds, cumulativeShares, messages } = options;
  const stepSeconds = (PRELOAD_DAYS * 86_400) / messages;
  for (let from = 0; from < messages; from += PRELOAD_AT_ONCE) {
    const until = Math.min(messages, from + PRELOAD_AT_ONCE);
    await sql`
      with fresh as materialized (
        select n, gen_random_uuid() as id, (${[...tenantIds]}::uuid[])[1 + width_bucket(random(), ${[...cumulativeShares]}::float8[])] as tenant,
          now() - make_interval(secs => (${messages} - n) * ${stepSeconds}::float8) as at, n % 100 = 0 as waits
        from generate_series(${from}::bigint, ${until - 1}::bigint) n
      ), stored as (
        insert into messages (id, purge_on, tenant_id, channel, recipient, address, content, external_id, category,
          priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
        select id, purge_day(at, 90), tenant, 'sms', '+15550000000', '+15550000000',
          jsonb_build_object('body', 'm' || n || ' Your parcel is on its way and will reach you between nine and noon.'),
          'order-' || n, 'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain',
          jsonb_build_object('order', n::text), array['parcel'], at
        from fresh order by n
        returning id, purge_on, tenant_id, seq, enqueued_at
      ), full_rows as materialized (
        select s.*, f.waits from stored s join fresh f on f.id = s.id
      ), states as (
        insert into message_states (id, purge_on, tenant_id, seq, status, attempt, provider, provider_message_id,
          next_attempt_at, expires_at, final, sent_at, delivered_at, completed_at, updated_at)
        select id, purge_on, tenant_id, seq, case when waits then 'deferred' else 'delivered' end, 1, 'twilio',
          case when not waits then 'SM' || id end, case when waits then now() + interval '1 day' end,
          now() + interval '2 days', not waits, case when not waits then enqueued_at end,
          case when not waits then enqueued_at end, case when not waits then enqueued_at end, enqueued_at
        from full_rows order by seq
      ), tried as (
        insert into attempt_log (id, message_id, purge_on, number, tenant_id, provider, worker, outcome, http_status,
          started_at, ended_at, message_status)
        select gen_random_uuid(), id, purge_on, 1, tenant_id, 'twilio', 'bench',
          case when waits then 'rejected_transient' else 'accepted' end, case when waits then 503 else 201 end,
          enqueued_at, enqueued_at, case when waits then 'deferred' else 'sent' end
        from full_rows order by seq
      ), logged as (
        insert into event_log (message_id, purge_on, tenant_id, type, source, at)
        select id, purge_on, tenant_id, 'message.delivered', 'receipt', enqueued_at from full_rows where not waits order by seq
      ), timers as (
        insert into due (seq, message_id, purge_on, tenant_id, due_at)
        select seq, id, purge_on, tenant_id, now() + interval '1 day' from full_rows where waits
      ), used as (
        insert into tenant_usage as u (tenant_id, accepted) select tenant_id, count(*) from full_rows group by 1 order by 1
        on conflict (tenant_id) do update set accepted = u.accepted + excluded.accepted
      )
      insert into tenant_progress as p (tenant_id, finished)
      select tenant_id, count(*) from full_rows where not waits group by 1 order by 1
      on conflict (tenant_id) do update set finished = p.finished + excluded.finished`;
  }
}

/** What a database looks like that has been in use for a while. */
export async function settleTables(sql: Sql): Promise<void> {
  await sql`vacuum (analyze) messages, message_states, attempt_log, event_log, due, tenant_usage, tenant_progress`;
  await sql`checkpoint`;
}

// One message a transaction --------------------------------------------------------------------------------------------

/** The checks and rows of the accept function, written as they usually are: one statement after the other. */
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
    purgeOn: '',
  });
  const { scope, fingerprint } = row;
  if (scope !== null && fingerprint !== null) {
    const [taken] = await tx<{ same: boolean; response: unknown }[]>`
      select fingerprint = decode(${fingerprint}, 'hex') as same, response
      from claim_idempotency(array[decode(${scope}, 'hex')], array[${row.tenant_id}::uuid], array[decode(${fingerprint}, 'hex')])`;
    if (taken !== undefined) return refuse(taken.same ? 'replayed' : 'mismatch', null, taken.response);
  }
  const [rate] = await tx<{ passed: boolean; remaining: number; retry_after: number }[]>`
    select * from take_rate(${row.api_key_id}, ${row.rate_per_minute})`;
  if (rate?.passed !== true) return refuse('rate_limited', rate?.retry_after ?? 1);
  const [usage] = await tx`
    update tenant_usage u set day = (now() at time zone 'UTC')::date, accepted = accepted + 1,
      used = case when day = (now() at time zone 'UTC')::date then used else 0 end + 1
    where tenant_id = ${row.tenant_id}
      and (day < (now() at time zone 'UTC')::date or used < ${row.messages_per_day})
      and accepted - coalesce((select finished from tenant_progress p where p.tenant_id = u.tenant_id), 0) < ${row.backlog_max}
    returning 1`;
  if (usage === undefined) return refuse('daily_limit_reached', 1);
  const [stored] = await tx<{ seq: number; purge_on: string }[]>`
    insert into messages (id, purge_on, tenant_id, api_key_id, channel, recipient, address, sender, content, external_id,
      category, priority, test, pinned_provider_id, segments, encoding, delivery_guarantee, content_retention, metadata,
      tags, traceparent, request_id, enqueued_at)
    values (${row.id}, purge_day(${row.enqueued_at}, ${row.retention_days}), ${row.tenant_id}, ${row.api_key_id},
      ${row.channel}, ${row.recipient}, ${row.address}, ${row.sender}, ${tx.json(row.content as Json)}, ${row.external_id},
      ${row.category}, ${row.priority}, ${row.test}, ${row.pinned_provider_id}, ${row.segments}, ${row.encoding},
      ${row.delivery_guarantee}, ${row.content_retention}, ${tx.json(row.metadata as Json)}, ${row.tags as string[] | null},
      ${row.traceparent}, ${row.request_id}, ${row.enqueued_at})
    returning seq, purge_on`;
  if (stored === undefined) throw new Error('the message was not stored');
  await tx`insert into message_states (id, purge_on, tenant_id, seq, status, expires_at, updated_at)
    values (${row.id}, ${stored.purge_on}, ${row.tenant_id}, ${stored.seq}, 'queued',
      coalesce(now() + make_interval(secs => ${row.lifetime_ms ?? null}::float8 / 1000), ${row.expires_at}), ${row.enqueued_at})`;
  await tx`insert into due (seq, message_id, purge_on, tenant_id, due_at)
    values (${stored.seq}, ${row.id}, ${stored.purge_on}, ${row.tenant_id}, now() + interval '5 seconds')`;
  if (scope !== null) {
    await tx`select store_idempotent_response(array[decode(${scope}, 'hex')], array[202::smallint],
      array[${tx.json(row.response as Json)}::jsonb], array[null::bytea])`;
  }
  return {
    verdict: 'accepted',
    response: row.response,
    retryAfter: null,
    remaining: rate.remaining,
    purgeOn: stored.purge_on,
  };
}

// The plain table --------------------------------------------------------------------------------------------------------
// One table with the columns of `messages`, for the floors and for libraries that bring a queue and no messages.

export type PlainMessage = { readonly to: string; readonly body: string; readonly externalId: string };

export async function createPlainTable(sql: Sql): Promise<void> {
  await sql`create schema bench`;
  await sql`create table bench.messages (like despatch.messages including defaults)`;
  await sql`alter table bench.messages add primary key (id), add column status text not null default 'queued'`;
  await sql`create index on bench.messages (tenant_id, enqueued_at desc, seq desc)`;
  await sql`create index on bench.messages (tenant_id, external_id)`;
}

/** One statement for a batch; each column travels as one array. @returns the ids in order. */
export async function insertPlain(
  sql: Sql | TransactionSql,
  rows: readonly PlainMessage[],
): Promise<string[]> {
  const ids = rows.map(() => randomUUID());
  await sql`
    insert into bench.messages (id, purge_on, tenant_id, channel, recipient, address, content, external_id, category,
      priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
    select u.id, now()::date + 90, ${PLAIN_TENANT}, 'sms', u.address, u.address, u.content::jsonb, u.external_id,
      'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain', '{"region": "eu-central"}', '{parcel}', now()
    from unnest(${ids}::uuid[], ${rows.map((row) => row.to)}::text[],
      ${rows.map((row) => JSON.stringify({ body: row.body }))}::text[], ${rows.map((row) => row.externalId)}::text[])
      as u (id, address, content, external_id)`;
  return ids;
}

/** The same row and a job of graphile-worker in one statement, so that neither is without the other. */
export async function insertPlainWithJob(sql: Sql, { to, body, externalId }: PlainMessage): Promise<string> {
  const id = randomUUID();
  await sql`
    with stored as (
      insert into bench.messages (id, purge_on, tenant_id, channel, recipient, address, content, external_id, category,
        priority, test, segments, encoding, delivery_guarantee, content_retention, metadata, tags, enqueued_at)
      values (${id}, now()::date + 90, ${PLAIN_TENANT}, 'sms', ${to}, ${to}, ${sql.json({ body })}, ${externalId},
        'transactional', 1, false, 1, 'GSM-7', 'at_least_once', 'retain', '{"region": "eu-central"}', '{parcel}', now())
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
