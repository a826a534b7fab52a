// Every question of the fault suite to the tables of messages stands here: another layout changes this file alone.
import { BUILT_IN_PLANS, type Limits } from '#core/domain/plan.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';

/** What the database says of one message in the end. */
export type MessageRecord = {
  readonly id: string;
  readonly tenantId: string;
  readonly token: string;
  readonly status: string;
  readonly reason: string | null;
  /** It waits for a time that has not come. */
  readonly isTimed: boolean;
  readonly failure: { readonly class: string; readonly code: string } | null;
  readonly duplicateRisk: boolean;
  readonly guarantee: string;
  /** Attempt numbers in order. */
  readonly attempts: readonly number[];
  /** How each attempt ended, in the same order; `started` where nobody has said. */
  readonly outcomes: readonly string[];
  /** Types of the events that were applied, in order, `message.` left out. */
  readonly events: readonly string[];
  /** Receipts that are in its history, applied or not. */
  readonly receipts: number;
};

const AT_ONCE = 2_000;

/** All messages that the load sent, a few thousand at a time. */
export async function eachRecord(sql: Sql, visit: (record: MessageRecord) => void): Promise<void> {
  const rows = sql<MessageRecord[]>`
    select m.id, m.tenant_id as "tenantId", m.external_id as token, coalesce(s.status, 'nowhere') as status, s.reason,
      coalesce(s.status = 'deferred' and s.next_attempt_at > now(), false) as "isTimed", s.failure,
      coalesce(s.duplicate_risk, false) as "duplicateRisk", m.delivery_guarantee as guarantee,
      coalesce(a.numbers, '{}') as attempts, coalesce(a.outcomes, '{}') as outcomes, coalesce(e.types, '{}') as events,
      coalesce(e.receipts, 0) as receipts
    from messages m
    -- One row: a message that has none is lost, and one that has two is there twice.
    left join message_states s on s.seq = m.seq and s.purge_on = m.purge_on
    left join lateral (
      select array_agg(x.number order by x.number) as numbers, array_agg(x.outcome order by x.number) as outcomes
      from attempts x where x.message_seq = m.seq and x.purge_on = m.purge_on) a on true
    left join lateral (
      select array_agg(substr(x.type, 9) order by x.event_seq) filter (where x.applied) as types,
        (count(*) filter (where x.source = 'receipt'))::integer as receipts
      from events x where x.message_seq = m.seq and x.purge_on = m.purge_on) e on true
    where m.external_id is not null`.cursor(AT_ONCE);
  for await (const batch of rows) for (const record of batch) visit(record);
}

export type Unfinished = {
  readonly open: number;
  /** Those that wait for a time that has not come. */
  readonly waiting: number;
  /** Those that somebody should have looked at long ago. */
  readonly overdue: number;
};

const OVERDUE = '10 seconds';

/** Messages for which something still has to happen, and what providers have reported and nobody has looked into. */
export async function unfinished(sql: Sql): Promise<Unfinished> {
  const [row] = await sql<Unfinished[]>`
    select m.open + r.open as open, m.waiting, m.overdue + r.overdue as overdue
    from (
      select count(*)::int as open,
        count(*) filter (where status = 'deferred' and next_attempt_at > now())::int as waiting,
        count(*) filter (where case status when 'sending' then lease_until else due_at end
          < now() - ${OVERDUE}::interval)::int as overdue
      from live_messages
    ) m, (
      select count(*)::int as open, count(*) filter (where due < now() - ${OVERDUE}::interval)::int as overdue
      from (select due_at as due from receipt_calls union all select apply_at from receipts) x
    ) r`;
  return row ?? { open: 0, waiting: 0, overdue: 0 };
}

/** Gives a tenant the largest plan with some limits of its own. */
export async function setLimits(sql: Sql, tenantId: string, own: Partial<Limits> = {}): Promise<void> {
  await sql`update tenant_limits set plan = 'enterprise', overrides = ${sql.json(own)},
    limits = ${sql.json({ ...BUILT_IN_PLANS.enterprise, ...own })}, generation = generation + 1 where tenant_id = ${tenantId}`;
}
