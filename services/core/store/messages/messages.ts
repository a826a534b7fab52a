import type { Channel } from '#core/domain/message/channel.ts';
import type { Engagement } from '#core/domain/receipts/engagement.ts';
import type { LeftAccount } from '#core/domain/routing/explain-route.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { MessageId, ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { MessagePlace } from '#core/domain/storage/message-id.ts';
import type { Category } from '#core/domain/message/message-options.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { SmsEncoding } from '#core/domain/message/segments.ts';
import type { StatusReason } from '#core/domain/message/status-reason.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { ScanRange, Scanned } from '../query/scan.ts';

/** A message and its state. */
export type MessageRow = {
  readonly seq: number;
  readonly id: MessageId;
  readonly purge_on: string;
  readonly external_id: string | null;
  readonly batch_id: string | null;
  /** The message that this one repeats. */
  readonly parent_id: MessageId | null;
  readonly channel: Channel;
  readonly recipient: string;
  /** As sent; otherwise the account's own sender, once a provider has accepted the message. */
  readonly sender: string | null;
  readonly status: MessageState;
  readonly reason: StatusReason | null;
  readonly final: boolean;
  readonly failure: (Failure & { readonly retryable?: boolean }) | null;
  readonly partial: boolean;
  readonly late_bounce: boolean;
  readonly engagement: Readonly<Partial<Record<Engagement, number>>> | null;
  readonly category: Category;
  readonly priority: number;
  readonly test: boolean;
  readonly segments: number | null;
  readonly encoding: SmsEncoding | null;
  readonly account_id: ProviderAccountId | null;
  readonly provider: string | null;
  readonly provider_message_id: string | null;
  readonly pinned_account_id: ProviderAccountId | null;
  readonly attempt: number;
  /** The accepted attempt, if a later one was not accepted. */
  readonly sent_attempt: number | null;
  readonly next_attempt_at: Date | null;
  readonly duplicate_risk: boolean;
  readonly expires_at: Date;
  readonly enqueued_at: Date;
  readonly scheduled_at: Date | null;
  /** For a test message: by how many milliseconds its tenant's test clock is ahead. */
  readonly ahead_ms: number | null;
  readonly sent_at: Date | null;
  readonly delivered_at: Date | null;
  readonly completed_at: Date | null;
  readonly updated_at: Date;
  readonly metadata: Record<string, unknown> | null;
  readonly tags: string[] | null;
  /** Version of the route that chose its first account; null if none was set. */
  readonly route_version: number | null;
  /** Accounts of that route that came first and could not be used. */
  readonly route_skipped: string[] | null;
  /** Accounts that it was called through, or waited for, and then left; null if there are none. */
  readonly left_accounts: (LeftAccount & { readonly version: number | null })[] | null;
  /** Its first call that got no answer, with the route in force at that time. */
  readonly ambiguous_call:
    | (Pick<Route, 'steps'> & {
        readonly at: string;
        readonly strategy: Route['strategy'] | null;
        readonly version: number | null;
      })
    | null;
  /** Labels of the accounts that were considered, by their ids. */
  readonly labels: Readonly<Record<string, string>>;
};

export type MessageFilter = {
  readonly status?: string | undefined;
  readonly channel?: string | undefined;
  /** As sent, or in normal form. */
  readonly to?: string | undefined;
  readonly externalId?: string | undefined;
  readonly batchId?: string | undefined;
  /** The message that these repeat. */
  readonly parentId?: string | undefined;
  readonly accountId?: string | undefined;
  readonly tag?: string | undefined;
  /** All of these, compared as text. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly test?: boolean | undefined;
  /** Enqueued at or after this time. */
  readonly since?: string | undefined;
  /** Enqueued before this time. */
  readonly until?: string | undefined;
};

/** A message's position in the list. `seq` orders messages of the same millisecond. */
export type MessagePosition = { readonly enqueuedAt: string; readonly seq: number };

type UnlabelledRow = Omit<MessageRow, 'labels'>;
type ScannedRow = UnlabelledRow & {
  readonly scanned: number;
  readonly end_at: Date;
  readonly end_seq: number;
};

/**
 * Reads messages, newest first by the time that the record shows: concurrent batches may commit in another order. Time,
 * reference, batch and test mode select the stretch of an index that is read; all other criteria are checked row by row.
 */
export async function scanMessages(
  tenantId: TenantId,
  tx: TransactionSql,
  filter: MessageFilter,
  { before, rows, most }: ScanRange<MessagePosition>,
): Promise<Scanned<MessageRow, MessagePosition>> {
  const {
    status,
    channel,
    to,
    externalId,
    batchId,
    parentId,
    accountId,
    tag,
    metadata = {},
    test,
    since,
    until,
  } = filter;
  const scanned = await tx<ScannedRow[]>`
    with scanned as materialized (
      select m.seq, m.purge_on, m.ctid as at_row, m.enqueued_at, (true
        ${channel === undefined ? tx`` : tx`and m.channel = ${channel}`}
        ${to === undefined ? tx`` : tx`and (m.recipient = ${to} or m.address = ${to})`}
        ${parentId === undefined ? tx`` : tx`and m.parent_id = ${parentId}`}
        ${tag === undefined ? tx`` : tx`and ${tag} in (select json_array_elements_text(m.tags))`}
        ${test === undefined ? tx`` : tx`and m.test = ${test}`}
        ${Object.entries(metadata).reduce((all, [key, value]) => tx`${all} and m.metadata ->> ${key} = ${value}`, tx``)}
      ) as fits
      from messages m
      where m.tenant_id = ${tenantId}
        ${externalId === undefined ? tx`` : tx`and m.external_id = ${externalId}`}
        ${batchId === undefined ? tx`` : tx`and m.batch_id = ${batchId}`}
        ${test === true ? tx`and m.test` : tx``}
        ${before === undefined ? tx`` : tx`and (m.enqueued_at, m.seq) < (${before.enqueuedAt}::text::timestamptz, ${before.seq})`}
        ${since === undefined ? tx`` : tx`and m.enqueued_at >= ${since}::text::timestamptz`}
        ${until === undefined ? tx`` : tx`and m.enqueued_at < ${until}::text::timestamptz`}
      order by m.enqueued_at desc, m.seq desc limit ${rows}
    ), found as materialized (
      select f.purge_on, f.at_row from scanned f
      ${
        status === undefined && accountId === undefined
          ? tx``
          : tx`cross join lateral (
        select from message_states t where t.seq = f.seq and t.purge_on = f.purge_on
          ${status === undefined ? tx`` : tx`and t.status = ${status}`}
          ${accountId === undefined ? tx`` : tx`and t.account_id = ${accountId}`}
        limit 1) s`
      }
      where f.fits order by f.enqueued_at desc, f.seq desc limit ${most}
    ), reach as (
      select count(*) over ()::integer as scanned, r.enqueued_at as end_at, r.seq as end_seq
      from scanned r order by r.enqueued_at, r.seq limit 1
    )
    select r.scanned, r.end_at, r.end_seq, m.*
    from reach r left join lateral (
      ${selectMessages(
        tx,
        // By the row's physical position, where the scan has just been: by its key, each row would be looked up in an index as
        // large as everything stored.
        tx`found f cross join lateral (
          select * from messages x where x.ctid = f.at_row and x.purge_on = f.purge_on offset 0) m`,
      )}
    ) m on true
    order by m.enqueued_at desc, m.seq desc`;
  const [first] = scanned;
  return {
    found: await withLabels(
      tenantId,
      tx,
      scanned.filter(({ id }) => id !== null),
    ),
    scanned: first?.scanned ?? 0,
    end: first && { enqueuedAt: first.end_at.toISOString(), seq: first.end_seq },
  };
}

/** Identifies a message. An id decodes to a place whether a message is there or not, so the row must also have the id. */
export type MessageAddress = MessagePlace & {
  readonly id: string;
  /** Only a message of this mode; of either if undefined. */
  readonly test?: boolean | undefined;
};

export async function findMessage(
  tenantId: TenantId,
  tx: TransactionSql,
  address: MessageAddress,
): Promise<MessageRow | undefined> {
  // A value, so that the planner leaves out the partitions of all other weeks: planning for them takes 20 ms.
  const purgeOn = tx`${address.purgeOn}::date`;
  const rows = await tx<UnlabelledRow[]>`
    ${selectMessages(tx, tx`messages m`, purgeOn)} where ${whereMessage(tenantId, tx, address)}`;
  const [row] = await withLabels(tenantId, tx, rows);
  return row;
}

/** A condition on the row `m` of `messages`. */
export function whereMessage(
  tenantId: TenantId,
  tx: TransactionSql,
  { seq, purgeOn, id, test }: MessageAddress,
) {
  return tx`m.seq = ${seq} and m.purge_on = ${purgeOn} and m.id = ${id} and m.tenant_id = ${tenantId}
    ${test === undefined ? tx`` : tx`and m.test = ${test}`}`;
}

/**
 * The state is looked up row by row. For an ordinary join the planner assumes that a tenant's states are one in a thousand, and
 * reads and sorts all of its messages for one page.
 * @param from where the rows `m` of `messages` come from.
 * @param purgeOn the partition of the rows that belong to a message.
 */
function selectMessages(tx: TransactionSql, from = tx`messages m`, purgeOn = tx`m.purge_on`) {
  return tx`
    select m.seq, m.id, m.purge_on, m.external_id, m.batch_id, m.parent_id, m.channel, m.recipient, coalesce(m.sender, s.sent_from) as sender, s.status,
      s.reason, s.final, s.failure, s.partial, s.late_bounce, s.engagement, m.category, m.priority, m.test, m.segments, m.encoding, s.account_id, s.provider, s.provider_message_id,
      m.pinned_account_id, s.attempt, back.sent_attempt, s.next_attempt_at, s.duplicate_risk, s.expires_at, m.enqueued_at, m.scheduled_at,
      case when m.test then (select t.test_clock_ms from tenants t where t.id = m.tenant_id) end as ahead_ms,
      s.sent_at, s.delivered_at, s.completed_at, s.updated_at, m.metadata, m.tags,
      m.route_version, m.route_skipped,
      case
        -- Not called yet, or accepted at the first attempt: nearly all messages, for which the logs need not be read.
        when s.reassigned = 0 and (s.attempt = 0 or s.attempt = 1 and s.sent_at is not null) or m.test then null
        else (
          select json_agg(json_build_object('accountId', a.account_id, 'attempt', a.number, 'class', a.class, 'why', a.why,
            'at', a.at, 'to', a.rerouted -> 'accountId', 'skipped', a.rerouted -> 'skipped', 'version', a.rerouted -> 'version') order by a.event_seq)
          from (
            select x.event_seq, x.account_id, x.number, x.failure ->> 'class' as class, null as why, x.ended_at as at, x.rerouted
            from attempt_log x where x.message_seq = m.seq and x.purge_on = ${purgeOn} and x.rerouted is not null
            union all
            select e.event_seq, (e.details ->> 'from')::uuid, (
                select max(x.number) from attempt_log x
                where x.message_seq = m.seq and x.purge_on = ${purgeOn} and x.event_seq < e.event_seq
                  and x.account_id = (e.details ->> 'from')::uuid),
              null, e.details ->> 'why', e.at, e.details -> 'rerouted'
            from event_log e
            where s.reassigned > 0 and e.message_seq = m.seq and e.purge_on = ${purgeOn}
              and e.type in ('message.failed_over', 'message.sent') and e.details ? 'rerouted'
            union all
            -- The account that was called last, if a receipt of an earlier one ended the wait for it: no event says so.
            select x.event_seq, x.account_id, x.number, x.failure ->> 'class', null, x.ended_at,
              jsonb_build_object('accountId', s.account_id, 'skipped', '[]'::jsonb)
            from attempt_log x
            where s.sent_attempt is null and back.sent_attempt is not null and x.message_seq = m.seq and x.purge_on = ${purgeOn}
              and x.number = (
                select max(y.number) from attempt_log y
                where y.message_seq = m.seq and y.purge_on = ${purgeOn} and y.outcome <> 'not_started')
              and x.account_id <> s.account_id and x.rerouted is null and not exists (
                select from event_log e
                where e.message_seq = m.seq and e.purge_on = ${purgeOn} and e.event_seq > x.event_seq and e.details ? 'rerouted')
          ) a)
      end as left_accounts,
      case
        when s.attempt = 0 or s.attempt = 1 and s.sent_at is not null or m.test or m.pinned_account_id is not null then null
        else (
          select json_build_object('at', a.ended_at, 'strategy', r.strategy, 'version', r.version, 'steps', coalesce(r.steps, (
            -- Without a route the accounts by age.
            select json_agg(json_build_object('accountId', p.id, 'weight', 1) order by p.seq) from provider_accounts p
            where p.tenant_id = m.tenant_id and p.channel = m.channel and p.created_at <= a.ended_at)))
          from attempt_log a
          left join routes r on r.tenant_id = m.tenant_id and r.channel = m.channel and r.version = coalesce((
            select (x.rerouted -> 'version')::integer from attempt_log x
            where x.message_seq = m.seq and x.purge_on = ${purgeOn} and x.number < a.number and x.rerouted is not null
            order by x.number desc limit 1), m.route_version)
          where a.message_seq = m.seq and a.purge_on = ${purgeOn} and a.outcome = 'ambiguous'
          order by a.number limit 1)
      end as ambiguous_call
    from ${from}
    cross join lateral (select * from message_states t where t.seq = m.seq and t.purge_on = ${purgeOn} limit 1) s
    -- A message that a receipt ended while it waited for another account is with the account of the receipt again.
    cross join lateral (select coalesce(s.sent_attempt, case when s.reassigned > 0 and s.sent_at is not null then (
      select max(x.number) from attempt_log x
      where x.message_seq = m.seq and x.purge_on = ${purgeOn} and x.account_id = s.account_id and x.outcome = 'accepted'
    ) end) as sent_attempt) back`;
}

/** Adds account labels; the accounts of a page are few and looked up by their ids. */
async function withLabels(
  tenantId: TenantId,
  tx: TransactionSql,
  rows: readonly UnlabelledRow[],
): Promise<MessageRow[]> {
  const ids = new Set(
    rows.flatMap(
      ({ account_id: called, route_skipped: skipped, left_accounts: left, ambiguous_call: open }) => [
        ...(called === null ? [] : [called]),
        ...(skipped ?? []),
        ...(left ?? []).flatMap((one) => [one.accountId, ...one.skipped.map(({ accountId }) => accountId)]),
        ...(open?.steps ?? []).map(({ accountId }) => accountId),
      ],
    ),
  );
  const found =
    ids.size === 0
      ? []
      : await tx<{ id: string; label: string }[]>`
          select id, label from provider_accounts where tenant_id = ${tenantId} and id = any (${[...ids]}::uuid[])`;
  const labels = Object.fromEntries(found.map(({ id, label }) => [id, label]));
  return rows.map((row) => ({ ...row, labels }));
}

/** The key of a message's row, for the lists that belong to it. */
export type MessageKey = Pick<MessageRow, 'seq' | 'purge_on' | 'id' | 'enqueued_at' | 'scheduled_at'>;

export async function findMessageKey(
  tenantId: TenantId,
  tx: TransactionSql,
  address: MessageAddress,
): Promise<MessageKey | undefined> {
  const [row] = await tx<MessageKey[]>`
    select m.seq, m.purge_on, m.id, m.enqueued_at, m.scheduled_at from messages m where ${whereMessage(tenantId, tx, address)}`;
  return row;
}
