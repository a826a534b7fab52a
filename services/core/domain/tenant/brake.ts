import { HOUR_MS } from '../text/duration.ts';
import type { Channel } from '../message/channel.ts';

/** Measures against a channel with too many bounces or complaints, the more severe last. */
export const BRAKE_LEVELS = ['slowed', 'held'] as const;
export type BrakeLevel = (typeof BRAKE_LEVELS)[number];

export const BRAKE_REASONS = ['hard_bounce_rate', 'complaint_rate'] as const;
export type BrakeReason = (typeof BRAKE_REASONS)[number];

/** A brake that is in force on a channel of a tenant. */
export type Brake = {
  readonly channel: Channel;
  readonly level: BrakeLevel;
  readonly reason: BrakeReason;
  /** The measured rate, from 0 to 1, with four decimals. */
  readonly rate: number;
  /** The plan's limit that the rate exceeded. */
  readonly bound: number;
  /** ISO 8601. */
  readonly at: string;
};

/**
 * Minimum number of final messages over which a rate is measured. The last ones are counted in stretches of fifty (SQL
 * `count_finals`): twenty full stretches and the one being filled.
 */
export const BRAKE_WINDOW = 1_000;
/** A slowed channel sends per hour this part of the messages that became final in its busiest hour. */
const SLOWED_PART = 1 / 10;
/** Messages an hour that a slowed channel sends at least, also one whose busiest hour is not known. */
const SLOWED_MIN = 6;

/**
 * Returns the minimum time between two messages of a slowed channel, in milliseconds.
 * @param busiestHour number of messages that became final in the busiest hour of the last eight days; null if none did.
 */
export function slowedGapMs(busiestHour: number | null): number {
  return HOUR_MS / Math.max(SLOWED_MIN, (busiestHour ?? 0) * SLOWED_PART);
}
