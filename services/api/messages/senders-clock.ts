import type { Sql } from '#core/platform/postgres/postgres.ts';
import { readTestClock } from '#core/store/test-clock.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { SendMessage } from './send-message-schema.ts';

/**
 * Returns how far the clock of a message's times is ahead of ours, in milliseconds. Queries the database only for a test
 * message that contains a time.
 */
export async function sendersClock(sql: Sql, { key, tenant }: KeyCaller, message: Instants): Promise<number> {
  return key.mode === 'test' && namesInstant(message) ? readTestClock(sql, tenant.id) : 0;
}

type Instants = Partial<Pick<SendMessage, 'sendAt' | 'expiresAt'>>;

export function namesInstant({ sendAt, expiresAt }: Instants): boolean {
  return sendAt !== undefined || expiresAt !== undefined;
}
