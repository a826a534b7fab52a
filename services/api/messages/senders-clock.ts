import type { Sql } from '#core/platform/postgres/postgres.ts';
import { readTestClock } from '#core/store/test-clock.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { SendMessage } from './send-message-schema.ts';

/**
 * By how much the clock is ahead by which a message names instants, in milliseconds. Only for a test message that names one the
 * database is asked.
 */
export async function sendersClock(sql: Sql, { key, tenant }: KeyCaller, message: Instants): Promise<number> {
  return key.mode === 'test' && namesInstant(message) ? readTestClock(sql, tenant.id) : 0;
}

type Instants = Partial<Pick<SendMessage, 'sendAt' | 'expiresAt'>>;

export function namesInstant({ sendAt, expiresAt }: Instants): boolean {
  return sendAt !== undefined || expiresAt !== undefined;
}
