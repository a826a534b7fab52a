import { DAY_MS } from '../text/duration.ts';
import type { MessageState } from './message-state.ts';

/**
 * Minimum time by which a scheduled message can be postponed while its record keeps its place. `partition_tasks` creates
 * partitions that much further ahead.
 */
const ROOM_DAYS = 7;

/** The result of a request for a send time. Instants are milliseconds since the epoch. */
export type Schedule =
  /** Sent at once: no instant was named, or it has passed. */
  | { readonly kind: 'now'; readonly isPast: boolean }
  | { readonly kind: 'scheduled'; readonly at: number }
  /** Later than the tenant's limit allows. */
  | { readonly kind: 'too_far'; readonly latest: number };

/** An instant that has passed by less causes no warning: clocks differ, and requests take time. */
const PAST_MS = 60_000;

/**
 * Decides about the send time of a new message.
 * @param horizonDays how far ahead a message of the tenant may be scheduled.
 */
export function scheduleOf(sendAt: number | undefined, now: number, horizonDays: number): Schedule {
  if (sendAt === undefined || sendAt <= now) {
    return { kind: 'now', isPast: sendAt !== undefined && sendAt < now - PAST_MS };
  }
  const latest = now + horizonDays * DAY_MS;
  return sendAt > latest ? { kind: 'too_far', latest } : { kind: 'scheduled', at: sendAt };
}

/**
 * Returns the instant from which the retention of a scheduled message counts, in milliseconds since the epoch; undefined: from
 * its acceptance. The place is chosen before the send time is checked against the limit, and leaves room for a later time.
 */
export function keptFrom(sendAt: number | undefined, now: number, horizonDays: number): number | undefined {
  if (sendAt === undefined || sendAt <= now) return undefined;
  return Math.min(sendAt, now + horizonDays * DAY_MS) + ROOM_DAYS * DAY_MS;
}

/** A scheduled message; instants are milliseconds since the epoch. */
export type Scheduled = {
  readonly status: MessageState;
  readonly sendAt: number;
  readonly expiresAt: number;
  /** Whether its instant has passed, so that a worker may be about to queue it. */
  readonly isDue: boolean;
  /** The Monday on which its record is dropped. */
  readonly purgeOn: string;
  /** How long its record is kept, as its sender's plan said when it was accepted: its place depends on it. */
  readonly retentionDays: number;
  /** How often it has been moved. */
  readonly moves: number;
};

/** Each move is an event of the message for good, and its events are counted whenever one of them is told. */
export const RESCHEDULES_MAX = 100;

export type Rescheduling =
  | { readonly kind: 'move'; readonly sendAt: number; readonly expiresAt: number }
  | { readonly kind: 'unchanged' }
  /** The message is not scheduled any more. */
  | { readonly kind: 'not_scheduled' }
  /** It was moved `RESCHEDULES_MAX` times. */
  | { readonly kind: 'worn' }
  | { readonly kind: 'too_far' }
  /** Its record would be dropped before the end of its retention, or of its lifetime. */
  | { readonly kind: 'no_place'; readonly latest: number };

/**
 * Decides about another send time for a message; the length of its lifetime does not change. An instant in the past means now.
 * @param message read under the lock of its row.
 */
export function decideReschedule(
  message: Scheduled,
  sendAt: number,
  now: number,
  { scheduleHorizonDays }: { readonly scheduleHorizonDays: number },
): Rescheduling {
  if (message.status !== 'scheduled' || message.isDue) return { kind: 'not_scheduled' };
  if (sendAt === message.sendAt) return { kind: 'unchanged' };
  if (message.moves >= RESCHEDULES_MAX) return { kind: 'worn' };
  const schedule = scheduleOf(sendAt, now, scheduleHorizonDays);
  if (schedule.kind === 'too_far') return { kind: 'too_far' };
  const at = schedule.kind === 'now' ? now : schedule.at;
  const lifetime = message.expiresAt - message.sendAt;
  const latest = Date.parse(message.purgeOn) - Math.max(message.retentionDays * DAY_MS, lifetime);
  if (at > message.sendAt && at > latest) return { kind: 'no_place', latest };
  return { kind: 'move', sendAt: at, expiresAt: at + lifetime };
}
