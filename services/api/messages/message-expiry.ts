import { validationFailed } from '#core/domain/fault/app-error.ts';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { lifetimeOf } from '#core/domain/message/lifetime.ts';
import { ofTestClock, type MessageClock } from './message-clock.ts';
import type { SendMessage } from './send-message-schema.ts';

/**
 * Returns when a message expires, in milliseconds since the epoch.
 * @param retentionDays days that the tenant's records are kept.
 * @param from start of the message's lifetime, in milliseconds since the epoch: `sendAt` of a scheduled message.
 * @param clock the times of the request.
 * @throws AppError when the sender's expiry is not between that and the end of the record's retention.
 */
export function expiryOf(
  message: SendMessage,
  retentionDays: number,
  from: number,
  isScheduled: boolean,
  clock: MessageClock,
): number {
  const { expiresAt, ttlSeconds, category } = message;
  const field = expiresAt === undefined ? 'ttlSeconds' : 'expiresAt';
  const latest = from + retentionDays * DAY_MS;
  const expiry =
    expiresAt !== undefined
      ? Date.parse(expiresAt)
      : ttlSeconds !== undefined
        ? from + ttlSeconds * 1000
        : from + lifetimeOf(category, retentionDays);
  if (expiry <= from) {
    const message = isScheduled ? 'Must lie after sendAt' : `Must lie in the future${ofTestClock(clock)}`;
    throw validationFailed({ field, rule: 'min', message });
  }
  if (expiry > latest) {
    const message = `Must lie within the ${retentionDays} days that records are kept`;
    throw validationFailed({ field, rule: 'max', message });
  }
  return expiry;
}
