import type { Sql } from '#core/platform/postgres/postgres.ts';
import { readTestClock } from '#core/store/messages/test-clock.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { SendMessage } from './send-message-schema.ts';

/** The times of one request. */
export type MessageClock = {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** `now` in ISO 8601: all messages of a batch have the same. */
  readonly enqueuedAt: string;
  /** How far this clock is ahead of ours, in milliseconds: the tenant's test clock for test messages. */
  readonly aheadMs: number;
};

/**
 * Returns the clock by which the times in a message are read. Queries the database only for a test message that contains a
 * time.
 */
export async function messageClock(
  sql: Sql,
  { key, tenant }: KeyCaller,
  message: Instants,
): Promise<MessageClock> {
  const aheadMs = key.mode === 'test' && namesInstant(message) ? await readTestClock(sql, tenant.id) : 0;
  const now = Date.now();
  return { now, enqueuedAt: new Date(now).toISOString(), aheadMs };
}

/** Says on which clock a time is past, where that is not ours: a sender may not know that the tenant's test clock was moved. */
export function ofTestClock({ now, aheadMs }: Pick<MessageClock, 'now' | 'aheadMs'>): string {
  return aheadMs === 0 ? '' : ` of the test clock, which is at ${new Date(now + aheadMs).toISOString()}`;
}

type Instants = Partial<Pick<SendMessage, 'sendAt' | 'expiresAt'>>;

export function namesInstant({ sendAt, expiresAt }: Instants): boolean {
  return sendAt !== undefined || expiresAt !== undefined;
}
