import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { PastTurn } from '#core/domain/routing/past-routing.ts';
import type { PastMessage } from '#core/domain/routing/simulate-route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { MessagePosition } from './messages.ts';
import type { ScanRange, Scanned } from '../query/scan.ts';

/** Maximum number of a message's calls and waits that are read, the earliest ones. */
const TURNS_MAX = 100;

type Row = {
  readonly id: string;
  readonly enqueued_at: Date;
  readonly account_id: string;
  readonly status: string;
  readonly turns: readonly (PastTurn & { readonly to?: string | null })[];
};
type ScannedRow = Row & { readonly scanned: number; readonly end_at: Date; readonly end_seq: number };

/** With the time of its acceptance. */
export type DatedMessage = PastMessage & { readonly enqueuedAt: Date };

/**
 * Reads a channel's messages for which accounts have been called, newest first: only messages of live keys whose senders named no
 * account.
 */
export async function scanPastMessages(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
  { before, rows, most }: ScanRange<MessagePosition>,
): Promise<Scanned<DatedMessage, MessagePosition>> {
  const scanned = await tx<ScannedRow[]>`
    with scanned as materialized (
      select m.seq, m.purge_on, m.id, m.enqueued_at, m.channel = ${channel} and not m.test and m.pinned_account_id is null as fits
      from messages m
      where m.tenant_id = ${tenantId}
        ${before === undefined ? tx`` : tx`and (m.enqueued_at, m.seq) < (${before.enqueuedAt}::text::timestamptz, ${before.seq})`}
      order by m.enqueued_at desc, m.seq desc limit ${rows}
    ), reach as (
      select count(*) over ()::integer as scanned, r.enqueued_at as end_at, r.seq as end_seq
      from scanned r order by r.enqueued_at, r.seq limit 1
    )
    select r.scanned, r.end_at, r.end_seq, m.id, m.enqueued_at, m.account_id, m.status, m.turns
    from reach r left join lateral (
      select f.id, f.enqueued_at, f.seq, s.account_id, s.status,
        -- Accepted at the first call: nearly all messages, for which the logs need not be read.
        case when s.reassigned = 0 and s.attempt = 1 and s.sent_at is not null then '[]'::json else coalesce((
          select json_agg(a.turn order by a.event_seq)
          from (
            (
              select x.event_seq, json_build_object('kind', case x.outcome when 'ambiguous' then 'unanswered' else 'refused' end,
                'accountId', x.account_id, 'isPermanent', x.outcome = 'rejected_permanent', 'class', x.failure ->> 'class',
                'skipped', x.rerouted -> 'skipped', 'to', x.rerouted -> 'accountId') as turn
              from attempt_log x
              where x.message_seq = f.seq and x.purge_on = f.purge_on and x.account_id is not null
                and x.outcome in ('rejected_permanent', 'rejected_transient', 'ambiguous')
              order by x.number limit ${TURNS_MAX}
            )
            union all
            (
              select e.event_seq, json_build_object('kind', case e.details ->> 'why' when 'receipt_timeout' then 'silent' else 'delayed' end, 'accountId', e.details ->> 'from', 'why', e.details ->> 'why',
                'skipped', e.details -> 'rerouted' -> 'skipped', 'to', e.details -> 'rerouted' -> 'accountId')
              from event_log e
              where s.reassigned > 0 and e.message_seq = f.seq and e.purge_on = f.purge_on and e.type = 'message.failed_over'
                -- Which accounts were disabled then says nothing about the ones that can be used now.
                and e.details ->> 'why' <> 'disabled'
              order by e.event_seq limit ${TURNS_MAX}
            )
          ) a), '[]') end as turns
      from scanned f
      cross join lateral (select * from message_states t where t.seq = f.seq and t.purge_on = f.purge_on limit 1) s
      where f.fits and s.account_id is not null
      order by f.enqueued_at desc, f.seq desc limit ${most}
    ) m on true
    order by m.enqueued_at desc, m.seq desc`;
  const [first] = scanned;
  const found = scanned.filter(({ id }) => id !== null);
  return {
    found: found.map(({ id, enqueued_at: enqueuedAt, account_id: accountId, status, turns }) => ({
      id,
      enqueuedAt,
      channel,
      accountId,
      status,
      turns,
      cameBack: cameBackOf(accountId, turns),
    })),
    scanned: first?.scanned ?? 0,
    end: first && { enqueuedAt: first.end_at.toISOString(), seq: first.end_seq },
  };
}

/** Whether the message's account is one that did not report in time, and for which account it waited since. */
function cameBackOf(accountId: string, turns: Row['turns']): PastMessage['cameBack'] {
  if (!turns.some((turn) => turn.kind === 'silent' && turn.accountId === accountId)) return undefined;
  const from = turns.findLast(({ to }) => to != null)?.to;
  return from == null ? undefined : { to: accountId, from };
}
