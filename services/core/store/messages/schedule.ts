import type { TenantId } from '#core/domain/storage/ids.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

/** A waiting message, as its locked row says. */
export type LockedSchedule = {
  readonly status: MessageState;
  /** For a scheduled message, its instant. */
  readonly sendAt: Date | null;
  readonly expiresAt: Date;
  /** Whether its instant has come. */
  readonly isDue: boolean | null;
  /** How long its record is kept, as the plan said when it was accepted; null for a message that was not scheduled. */
  readonly retentionDays: number | null;
  /** By the database's clock. */
  readonly now: Date;
};

/**
 * Locks a message's row, so that no other transaction moves it before this one ends.
 * @returns undefined if the message has ended, or belongs to another tenant.
 */
export async function lockSchedule(tx: TransactionSql, seq: number): Promise<LockedSchedule | undefined> {
  const [row] = camelRows<LockedSchedule>(
    // The retention never changes, so it need not be read after the lock.
    await tx`
      select s.status, s.send_at, s.expires_at, s.is_due, s.now_at as now,
        (select l.retention_days from live_messages l where l.seq = ${seq}) as retention_days
      from lock_schedule(${seq}) s`.values(),
  );
  return row;
}

/** Counts how often a message was moved to another instant. */
export async function countReschedules(
  tenantId: TenantId,
  tx: TransactionSql,
  seq: number,
  purgeOn: string,
): Promise<number> {
  const [row] = await tx<{ moves: number }[]>`
    select count(*)::integer as moves from event_log
    where message_seq = ${seq} and purge_on = ${purgeOn}::text::date and tenant_id = ${tenantId}
      and type = 'message.rescheduled'`;
  return row?.moves ?? 0;
}

/** Stores instants, in milliseconds since the epoch. @param shownAt `sendAt` as the record shows it. */
export async function storeSchedule(
  tx: TransactionSql,
  seq: number,
  { sendAt, expiresAt }: { readonly sendAt: number; readonly expiresAt: number },
  shownAt: number,
): Promise<void> {
  await tx`select store_schedule(${seq}, ${new Date(sendAt).toISOString()}, ${new Date(expiresAt).toISOString()},
    ${new Date(shownAt).toISOString()})`;
}
