import type { MessageState } from './message-state.ts';
import { purgeDay } from './purge-day.ts';

const DAY_MS = 86_400_000;

/**
 * By how much the instant of a scheduled message can be moved back at least, for as long as its record keeps its place.
 * `partition_tasks` makes partitions so much further ahead.
 */
const ROOM_DAYS = 7;

/** What a wish to be sent at an instant comes to. Instants are milliseconds since the epoch. */
export type Schedule =
  /** At once: no instant was named, or one that has come. */
  | { readonly kind: 'now'; readonly isPast: boolean }
  | { readonly kind: 'scheduled'; readonly at: number }
  /** Later than it may be. */
  | { readonly kind: 'too_far'; readonly latest: number };

/** Of an instant that is past by less, nobody has to be told: clocks differ, and requests take a while. */
const PAST_MS = 60_000;

/** @param horizonDays how far ahead a message of the tenant may be scheduled. */
export function scheduleOf(sendAt: number | undefined, now: number, horizonDays: number): Schedule {
  if (sendAt === undefined || sendAt <= now) {
    return { kind: 'now', isPast: sendAt !== undefined && sendAt < now - PAST_MS };
  }
  const latest = now + horizonDays * DAY_MS;
  return sendAt > latest ? { kind: 'too_far', latest } : { kind: 'scheduled', at: sendAt };
}

/**
 * From when on the record of a message is kept, in milliseconds since the epoch; undefined: from its acceptance. The place of
 * a scheduled one is chosen before it is known whether it may be so late, and has room for a later instant.
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
  /** Its instant has come: a worker may be about to move it on. */
  readonly isDue: boolean;
  /** The Monday on which its record goes. */
  readonly purgeOn: string;
  /** How often it has been moved. */
  readonly moves: number;
};

/** Each move is an event of the message for good, and its events are counted whenever one of them is told. */
export const RESCHEDULES_MAX = 100;

export type Rescheduling =
  | { readonly kind: 'move'; readonly sendAt: number; readonly expiresAt: number }
  | { readonly kind: 'unchanged' }
  /** It is not scheduled any more. */
  | { readonly kind: 'not_scheduled' }
  /** It was moved `RESCHEDULES_MAX` times. */
  | { readonly kind: 'worn' }
  | { readonly kind: 'too_far' }
  /** Its record would not be kept for the whole retention after it. */
  | { readonly kind: 'no_place'; readonly latest: number };

/**
 * Decides about another instant for a message; its lifetime stays as long as it was. An instant that has passed is now.
 * @param message as its row was found under its lock.
 */
export function decideReschedule(
  message: Scheduled,
  sendAt: number,
  now: number,
  { scheduleHorizonDays, retentionDays }: { scheduleHorizonDays: number; retentionDays: number },
): Rescheduling {
  if (message.status !== 'scheduled' || message.isDue) return { kind: 'not_scheduled' };
  if (sendAt === message.sendAt) return { kind: 'unchanged' };
  if (message.moves >= RESCHEDULES_MAX) return { kind: 'worn' };
  const schedule = scheduleOf(sendAt, now, scheduleHorizonDays);
  if (schedule.kind === 'too_far') return { kind: 'too_far' };
  const at = schedule.kind === 'now' ? now : schedule.at;
  // To an earlier one it can be moved in any case: a longer retention holds for messages accepted since.
  if (at > message.sendAt && purgeDay(at, retentionDays) > message.purgeOn) {
    return { kind: 'no_place', latest: Date.parse(message.purgeOn) - retentionDays * DAY_MS };
  }
  return { kind: 'move', sendAt: at, expiresAt: message.expiresAt + at - message.sendAt };
}
