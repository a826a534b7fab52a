import type { Channel } from './channel.ts';

/** What is done to a channel whose messages bounce, or annoy their recipients, too often; the graver last. */
export const BRAKE_LEVELS = ['slowed', 'held'] as const;
export type BrakeLevel = (typeof BRAKE_LEVELS)[number];

export const BRAKE_REASONS = ['hard_bounce_rate', 'complaint_rate'] as const;
export type BrakeReason = (typeof BRAKE_REASONS)[number];

/** A brake that is on, of one channel of a tenant. */
export type Brake = {
  readonly channel: Channel;
  readonly level: BrakeLevel;
  readonly reason: BrakeReason;
  /** The rate that was found, from 0 to 1, with four decimals. */
  readonly rate: number;
  /** The plan's limit that it passed. */
  readonly bound: number;
  /** ISO 8601. */
  readonly at: string;
};

/**
 * Final messages of a channel that no brake is applied before. They are counted in stretches of fifty (SQL `count_finals`): a
 * rate is of the last twenty full ones and of the one that is being filled.
 */
export const BRAKE_WINDOW = 1_000;
/** A slowed channel sends as many messages in an hour as this part of those that became final in its busiest one. */
const SLOWED_PART = 1 / 10;
const HOUR_MS = 3_600_000;

/**
 * Least time between two messages of a slowed channel, in milliseconds.
 * @param busiestHour messages that became final in the busiest of the last 24 hours.
 */
export function slowedGapMs(busiestHour: number): number {
  return HOUR_MS / (Math.max(1, busiestHour) * SLOWED_PART);
}
