import type { MessageState } from '#core/domain/message-state.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/** A message that waits, as its locked row says. */
export type LockedSchedule = {
  readonly status: MessageState;
  /** Of a scheduled one its instant. */
  readonly sendAt: Date | null;
  readonly expiresAt: Date;
  /** Its instant has come. */
  readonly isDue: boolean | null;
  /** By the database's clock. */
  readonly now: Date;
};

/** Nobody moves the message on before the transaction's end. @returns undefined where it has come to an end, or is none of the tenant's. */
export async function lockSchedule(tx: TransactionSql, seq: number): Promise<LockedSchedule | undefined> {
  const [row] = await tx<LockedSchedule[]>`
    select status, send_at as "sendAt", expires_at as "expiresAt", is_due as "isDue", now_at as now
    from lock_schedule(${seq})`;
  return row;
}

/** Instants in milliseconds since the epoch. @param shownAt `sendAt` as the record says it. */
export async function storeSchedule(
  tx: TransactionSql,
  seq: number,
  { sendAt, expiresAt }: { readonly sendAt: number; readonly expiresAt: number },
  shownAt: number,
): Promise<void> {
  await tx`select store_schedule(${seq}, ${new Date(sendAt).toISOString()}, ${new Date(expiresAt).toISOString()},
    ${new Date(shownAt).toISOString()})`;
}
