// All queries of the fault suite against the message tables: a change of the tables changes this file alone.
import { BUILT_IN_PLANS, type Limits } from '#core/domain/tenant/plan.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';

/** What the database holds about one message at the end of the run. */
export type MessageRecord = {
  readonly id: string;
  readonly tenantId: string;
  readonly token: string;
  readonly status: string;
  readonly reason: string | null;
  /** It was accepted with a time to be sent at. */
  readonly isScheduled: boolean;
  /** It waits for a time in the future. */
  readonly isTimed: boolean;
  readonly failure: { readonly class: string; readonly code: string } | null;
  readonly duplicateRisk: boolean;
  readonly guarantee: string;
  /** The sender named the account. */
  readonly isPinned: boolean;
  /** Attempt numbers in order. */
  readonly attempts: readonly number[];
  /** How each attempt ended, in the same order; `started` where no outcome is recorded. */
  readonly outcomes: readonly string[];
  /** Further facts about each attempt, in the same order. */
  readonly tries: readonly Try[];
  /** When the last attempt began, in milliseconds since the epoch; null where there was none. */
  readonly begunAt: number | null;
  /** Types of its events in order, without the prefix `message.`; `silent` for a failover after a receipt timeout. */
  readonly events: readonly string[];
  /** Receipts in its history, applied or not. */
  readonly receipts: number;
  /** Keys of the events that the tenant's feed should contain, in order, and of those that it contains. */
  readonly told: readonly number[];
  readonly fed: readonly number[];
  /** The receipt timeout failovers, in order. */
  readonly silences: readonly Silence[];
};

/** One attempt. Times are milliseconds since the epoch, by the database's clock. */
export type Try = {
  /** The account at the provider; empty where its settings do not contain it. */
  readonly account: string;
  readonly startedAt: number | null;
  /** Null where the attempt was not closed. */
  readonly endedAt: number | null;
};

/** A move of a sent message to another account after a receipt timeout. */
export type Silence = {
  /** The accounts at their providers. */
  readonly from: string;
  readonly to: string;
  /** The ids of the two accounts. */
  readonly fromId: string;
  readonly toId: string;
  readonly at: number;
};

const AT_ONCE = 2_000;

/** Visits all messages that the load sent, a few thousand at a time. */
export async function eachRecord(sql: Sql, visit: (record: MessageRecord) => void): Promise<void> {
  const rows = sql<MessageRecord[]>`
    with fed as materialized (
      select u.message_seq, array_agg(u.number order by f.first_seq + u.nth) as numbers
      from feed f, unnest(f.seqs, f.numbers) with ordinality as u (message_seq, number, nth) group by u.message_seq
    )
    select m.id, m.tenant_id as "tenantId", m.external_id as token, coalesce(s.status, 'nowhere') as status, s.reason,
      m.scheduled_at is not null as "isScheduled",
      coalesce(s.status = 'deferred' and s.next_attempt_at > now(), false) as "isTimed", s.failure,
      coalesce(s.duplicate_risk, false) as "duplicateRisk", m.delivery_guarantee as guarantee,
      m.pinned_account_id is not null as "isPinned", coalesce(a.tries, '[]') as tries, coalesce(e.silences, '[]') as silences,
      coalesce(a.numbers, '{}') as attempts, coalesce(a.outcomes, '{}') as outcomes,
      (extract(epoch from a.begun_at) * 1000)::float8 as "begunAt", coalesce(e.types, '{}') as events,
      coalesce(e.receipts, 0) as receipts, array[0::bigint] || coalesce(e.numbers, '{}') as told,
      coalesce(f.numbers, '{}') as fed
    from messages m
    -- One row: a message that has none is lost, and one that has two is there twice.
    left join message_states s on s.seq = m.seq and s.purge_on = m.purge_on
    left join lateral (
      select array_agg(x.number order by x.number) as numbers, array_agg(x.outcome order by x.number) as outcomes,
        max(x.started_at) as begun_at,
        jsonb_agg(jsonb_build_object('account', coalesce(p.config_public ->> 'accountSid', ''),
          'startedAt', extract(epoch from x.started_at) * 1000, 'endedAt', extract(epoch from x.ended_at) * 1000)
          order by x.number) as tries
      from attempts x left join provider_accounts p on p.id = x.account_id where x.message_seq = m.seq and x.purge_on = m.purge_on) a on true
    left join lateral (
      select array_agg(case when x.details ->> 'why' = 'receipt_timeout' then 'silent' else substr(x.type, 9) end
          order by x.event_seq)
          filter (where x.applied and x.type not in ('message.receipt', 'message.engagement')) as types,
        (count(*) filter (where x.source = 'receipt'))::integer as receipts,
        -- An event of an attempt is known by that one's number.
        array_agg(coalesce(-(case when x.source = 'worker' then x.details ->> 'attempt' end)::bigint, x.event_seq)
          order by x.event_seq)
          filter (where x.applied and x.type not in ('message.receipt', 'message.held', 'message.released', 'message.rescheduled')) as numbers,
        jsonb_agg(jsonb_build_object('from', f.config_public ->> 'accountSid', 'to', t.config_public ->> 'accountSid',
          'fromId', f.id, 'toId', t.id, 'at', extract(epoch from x.at) * 1000) order by x.event_seq)
          filter (where x.details ->> 'why' = 'receipt_timeout') as silences
      from events x
      left join provider_accounts f on f.id = (x.details ->> 'from')::uuid
      left join provider_accounts t on t.id = (x.details -> 'rerouted' ->> 'accountId')::uuid
      where x.message_seq = m.seq and x.purge_on = m.purge_on) e on true
    left join fed f on f.message_seq = m.seq
    where m.external_id is not null`.cursor(AT_ONCE);
  for await (const batch of rows) for (const record of batch) visit(record);
}

/** Numbers the changes that were committed when the last worker ended, as the next worker would. */
export async function numberRest(sql: Sql): Promise<void> {
  for (;;) {
    const [pass] = await sql<{ outcome: string }[]>`select outcome from number_changes(1000, 0)`;
    if (pass?.outcome !== 'more') return;
  }
}

/** Counts the usage that was committed when the last worker ended, as the next worker would. */
export async function countRest(sql: Sql): Promise<void> {
  for (;;) {
    const [pass] = await sql<{ outcome: string }[]>`select outcome from count_usage(1000, 0)`;
    // `elsewhere`: a worker holds the lock of the count.
    if (pass?.outcome !== 'more' && pass?.outcome !== 'elsewhere') return;
  }
}

/** Returns the gaps in the numbering of tenants' feeds. */
export async function feedHoles(sql: Sql): Promise<{ readonly tenantId: string; readonly after: number }[]> {
  return sql<{ tenantId: string; after: number }[]>`
    select tenant_id as "tenantId", before as after from (
      select tenant_id, first_seq, coalesce(lag(last_seq) over (partition by tenant_id order by first_seq, last_seq), 0) as before
      from feed
    ) f where first_seq <> before + 1`;
}

/** What the database holds about an endpoint at the end of the run. */
export type EndpointRecord = {
  readonly id: string;
  readonly tenantId: string;
  readonly ordered: boolean;
  /** The highest number in its feed. */
  readonly lastSeq: number;
  /** Gaps in the numbering of its feed. */
  readonly holes: number;
  /** Numbers in its feed that were still undelivered when the last worker ended. */
  readonly due: readonly number[];
  /** Events of its tenant's messages that its feed does not contain. */
  readonly missing: number;
  /** Events that its feed contains more than once, or that the tenant's feed does not contain. */
  readonly surplus: number;
};

/** Reads all endpoints; each subscribes to all events. */
export async function readEndpoints(sql: Sql): Promise<EndpointRecord[]> {
  return sql<EndpointRecord[]>`
    with own as materialized (
      select f.endpoint_id, u.seq, u.number, count(*) as times
      from endpoint_feed f, unnest(f.seqs, f.numbers) as u (seq, number) group by 1, 2, 3
    ), tenants as materialized (
      select f.tenant_id, u.seq, u.number, f.first_seq + u.nth - 1 as feed_seq
      from feed f, unnest(f.seqs, f.numbers) with ordinality as u (seq, number, nth)
    )
    select e.id, e.tenant_id as "tenantId", e.ordered,
      array(select generate_series(d.first_seq, d.last_seq) from due_deliveries d where d.endpoint_id = e.id) as due,
      (select coalesce(max(f.last_seq), 0) from endpoint_feed f where f.endpoint_id = e.id) as "lastSeq",
      (select count(*)::int from (
        select first_seq, coalesce(lag(last_seq) over (order by first_seq, last_seq), 0) as before
        from endpoint_feed f where f.endpoint_id = e.id) f where first_seq <> before + 1) as holes,
      (select count(*)::int from tenants t where t.tenant_id = e.tenant_id and t.seq <> 0 and t.feed_seq > e.matched_to
        and t.feed_seq <= r.matched_to
        and not exists (select from own o where o.endpoint_id = e.id and (o.seq, o.number) = (t.seq, t.number))) as missing,
      (select count(*)::int from own o where o.endpoint_id = e.id and (o.times > 1 or not exists (
        select from tenants t where t.tenant_id = e.tenant_id and (t.seq, t.number) = (o.seq, o.number)))) as surplus
    from webhook_endpoints e join endpoint_reach r on r.id = e.id`;
}

/** Makes all deliveries due now: the backoff of those that failed twice is minutes or hours. */
export async function hurryDeliveries(sql: Sql): Promise<void> {
  await sql`update due_deliveries set due_at = now() where claim is null and due_at > now() and due_at <> 'infinity'`;
  await sql`update webhook_endpoints set call_at = now() where call_at > now()`;
}

/** Counts the deliveries that are still due, and the endpoints whose feed has not been matched to the end. */
export async function undelivered(sql: Sql): Promise<number> {
  const [row] = await sql<{ open: number }[]>`
    select (select count(*)::int from due_deliveries) + (select count(*)::int from webhook_endpoints e
      join endpoint_reach r on r.id = e.id where r.matched_to
        < (select coalesce(max(f.last_seq), 0) from feed f where f.tenant_id = e.tenant_id)) as open`;
  return row?.open ?? 0;
}

/**
 * Makes the failover decisions due now for messages whose receipt timeout had passed at `by`: where no other account could be
 * called, a worker would decide again only after half a minute.
 * @returns how many decisions are left.
 */
export async function hurrySilent(sql: Sql, by: number): Promise<number> {
  const rows = await sql`
    update failover_waits w set due_at = least(w.due_at, now()) from message_results s, messages m, routes r
    where s.seq = w.seq and s.purge_on = w.purge_on and s.status = 'sent' and m.seq = w.seq and m.purge_on = w.purge_on
      and r.tenant_id = w.tenant_id and r.channel = m.channel and r.replaced_at is null
      and s.sent_at + make_interval(secs => r.receipt_timeout_ms / 1000.0) <= to_timestamp(${by / 1_000}::float8)
    returning w.seq`;
  return rows.length;
}

/**
 * Ends the leases of vendors' calls that a killed worker had claimed. A running worker settles a call within seconds, so a lease that is
 * ten seconds old belongs to none; it would last a minute.
 */
export async function endOrphanedLeases(sql: Sql): Promise<void> {
  await sql`update receipt_calls set leased_until = now() where leased_until between now() and now() + interval '50 seconds'`;
}

/** Counts the messages that the load sent, up to `most`. */
export async function storedMessages(sql: Sql, most: number): Promise<number> {
  const [row] = await sql<{ stored: number }[]>`
    select count(*)::int as stored from (select from messages where external_id is not null limit ${most}) m`;
  return row?.stored ?? 0;
}

export type Unfinished = {
  readonly open: number;
  /** Messages that wait for a time in the future. */
  readonly waiting: number;
  /** Messages that a worker should have claimed long ago. */
  readonly overdue: number;
};

const OVERDUE = '10 seconds';

/** Counts the messages that are not finished, the receipts that are not applied, and the events without a number. */
export async function unfinished(sql: Sql): Promise<Unfinished> {
  const [row] = await sql<Unfinished[]>`
    select m.open + r.open + (n.seconds > 0)::int as open, m.waiting,
      m.overdue + r.overdue + (n.seconds > extract(epoch from ${OVERDUE}::interval))::int as overdue
    from oldest_change_seconds() as n (seconds), (
      select count(*)::int as open,
        count(*) filter (where status = 'deferred' and next_attempt_at > now())::int as waiting,
        count(*) filter (where case status when 'sending' then lease_until else due_at end
          < now() - ${OVERDUE}::interval)::int as overdue
      from live_messages
    ) m, (
      select count(*)::int as open, count(*) filter (where due < now() - ${OVERDUE}::interval)::int as overdue
      from (select greatest(due_at, leased_until) as due from receipt_calls union all select apply_at from receipts) x
    ) r`;
  return row ?? { open: 0, waiting: 0, overdue: 0 };
}

/** Gives a tenant the largest plan, with some of its limits replaced. */
export async function setLimits(sql: Sql, tenantId: string, own: Partial<Limits> = {}): Promise<void> {
  await sql`update tenant_limits set plan = 'enterprise', overrides = ${sql.json(own)},
    limits = ${sql.json({ ...BUILT_IN_PLANS.enterprise, ...own })}, generation = generation + 1 where tenant_id = ${tenantId}`;
}
