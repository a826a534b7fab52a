import type { Channel } from '#core/domain/channel.ts';
import type { TenantId } from '#core/domain/ids.ts';
import type { PastAnswer } from '#core/domain/replay-route.ts';
import type { PastMessage } from '#core/domain/simulate-route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { MessagePosition } from './messages.ts';
import type { ScanRange, Scanned } from './scan.ts';

/** Calls of a message that are read, the first ones. */
const ANSWERS_MAX = 100;

type Row = {
  readonly id: string;
  readonly enqueued_at: Date;
  readonly account_id: string;
  readonly status: string;
  readonly answers: readonly {
    readonly accountId: string;
    readonly isPermanent: boolean;
    readonly class: string | null;
  }[];
};
type ScannedRow = Row & { readonly scanned: number; readonly end_at: Date; readonly end_seq: number };

/** With the time of its acceptance. */
export type DatedMessage = PastMessage & { readonly enqueuedAt: Date };

/**
 * A channel's messages for which accounts have been called, newest first: of live keys, whose senders named no account.
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
    select r.scanned, r.end_at, r.end_seq, m.id, m.enqueued_at, m.account_id, m.status, m.answers
    from reach r left join lateral (
      select f.id, f.enqueued_at, f.seq, s.account_id, s.status,
        -- Accepted at the first call: nearly all messages, for which the log need not be read.
        case when s.attempt = 1 and s.sent_at is not null then '[]'::json else coalesce((
          select json_agg(json_build_object('accountId', a.account_id, 'isPermanent', a.outcome = 'rejected_permanent',
            'class', case when a.outcome <> 'ambiguous' then a.failure ->> 'class' end) order by a.number)
          from (
            select * from attempt_log x
            where x.message_seq = f.seq and x.purge_on = f.purge_on and x.outcome <> 'not_started' and x.account_id is not null
            order by x.number limit ${ANSWERS_MAX}
          ) a), '[]') end as answers
      from scanned f
      cross join lateral (select * from message_states t where t.seq = f.seq and t.purge_on = f.purge_on limit 1) s
      where f.fits and s.account_id is not null
      order by f.enqueued_at desc, f.seq desc limit ${most}
    ) m on true
    order by m.enqueued_at desc, m.seq desc`;
  const [first] = scanned;
  const found = scanned.filter(({ id }) => id !== null);
  return {
    found: found.map(({ id, enqueued_at: enqueuedAt, account_id: accountId, status, answers }) => ({
      id,
      enqueuedAt,
      channel,
      accountId,
      status,
      answers: answers.map((one): PastAnswer => ({
        ...one,
        class: (one.class ?? undefined) as PastAnswer['class'],
      })),
    })),
    scanned: first?.scanned ?? 0,
    end: first && { enqueuedAt: first.end_at.toISOString(), seq: first.end_seq },
  };
}
