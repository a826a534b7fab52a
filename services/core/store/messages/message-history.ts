import type { Failure } from '#core/domain/sending/failure.ts';
import { uuidFrom, type ProviderAccountId, type TenantId } from '#core/domain/storage/ids.ts';
import type { EventSource, MessageEventType } from '#core/domain/message/message-event.ts';
import type { RecordedOutcome } from '#core/domain/sending/outcome.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { MessageKey } from './messages.ts';

export type AttemptRow = {
  readonly id: string;
  readonly number: number;
  readonly account_id: ProviderAccountId | null;
  readonly outcome: RecordedOutcome;
  /** Why it was not accepted. */
  readonly reason: string | null;
  readonly failure: Failure | null;
  readonly http_status: number | null;
  readonly started_at: Date;
  readonly ended_at: Date | null;
};

/** Returns attempts, newest first. */
export async function listAttempts(
  tenantId: TenantId,
  tx: TransactionSql,
  message: MessageKey,
  page: { readonly before: number | undefined; readonly most: number },
): Promise<AttemptRow[]> {
  const { before, most } = page;
  const rows = await tx<Omit<AttemptRow, 'id'>[]>`
    select number, account_id, outcome, reason, failure, http_status, started_at, ended_at from attempts
    where tenant_id = ${tenantId} and message_seq = ${message.seq} and purge_on = ${message.purge_on}
      ${before === undefined ? tx`` : tx`and number < ${before}`}
    order by number desc limit ${most}`;
  return rows.map((row) => ({ id: uuidFrom(`attempt ${message.id} ${row.number}`), ...row }));
}

export type MessageHistoryRow = {
  readonly event_seq: number;
  readonly type: MessageEventType;
  readonly at: Date;
  readonly source: EventSource;
  readonly applied: boolean;
  /** Null if the event is not a provider's report. */
  readonly verified: boolean | null;
  readonly provider_status: string | null;
};

/** Returns events, newest first. The acceptance itself is in the message's own row. */
export async function listEvents(
  tenantId: TenantId,
  tx: TransactionSql,
  message: MessageKey,
  page: { readonly before: number | undefined; readonly most: number },
): Promise<MessageHistoryRow[]> {
  const { before, most } = page;
  return tx<MessageHistoryRow[]>`
    select event_seq, type, at, source, applied, (details ->> 'verified')::boolean as verified,
      details ->> 'providerStatus' as provider_status
    from events
    where tenant_id = ${tenantId} and message_seq = ${message.seq} and purge_on = ${message.purge_on}
      ${before === undefined ? tx`` : tx`and event_seq < ${before}`}
    order by event_seq desc limit ${most}`;
}
