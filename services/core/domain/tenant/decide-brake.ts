import { BRAKE_LEVELS, BRAKE_WINDOW, type BrakeLevel, type BrakeReason } from './brake.ts';
import type { Limits, RateLimitName } from './plan.ts';

/** The last final messages of a tenant's channel, at most those since the last brake was lifted. */
export type BrakeWindow = {
  /** Number of messages; once enough have become final, at least `BRAKE_WINDOW` and less than one stretch more. */
  readonly finals: number;
  /** Messages to addresses that providers have reported as nonexistent. */
  readonly hardBounces: number;
  readonly complaints: number;
  /** Level of the brake in force; null without one. */
  readonly level: BrakeLevel | null;
};

export type BrakeDecision = {
  readonly level: BrakeLevel;
  readonly reason: BrakeReason;
  /** From 0 to 1, with four decimals. */
  readonly rate: number;
  readonly bound: number;
};

/** Rates and bounds have four decimals; they are compared as integers so that equal values compare as equal. */
const UNIT = 10_000;

/**
 * Returns the brake to apply; null to change nothing. Above its bound a rate slows the channel; at twice the bound or more it
 * holds the channel. A brake only becomes more severe: only a person can lift it. Of two rates, the one that exceeds its bound
 * more is the reason.
 */
export function decideBrake(
  { finals, hardBounces, complaints, level }: BrakeWindow,
  limits: Pick<Limits, RateLimitName>,
): BrakeDecision | null {
  if (finals < BRAKE_WINDOW) return null;
  const [worst] = [
    measure('hard_bounce_rate', hardBounces, limits.hardBounceRateMax),
    measure('complaint_rate', complaints, limits.complaintRateMax),
  ].toSorted((a, b) => b.excess - a.excess);
  if (worst === undefined || worst.excess <= 1) return null;
  const next: BrakeLevel = worst.excess >= 2 ? 'held' : 'slowed';
  if (level !== null && BRAKE_LEVELS.indexOf(next) <= BRAKE_LEVELS.indexOf(level)) return null;
  const { reason, rate, bound } = worst;
  return { level: next, reason, rate, bound };

  function measure(of: BrakeReason, hits: number, limit: number) {
    const bounded = Math.max(1, Math.round(limit * UNIT));
    return {
      reason: of,
      rate: Math.min(UNIT, Math.round((hits * UNIT) / finals)) / UNIT,
      bound: bounded / UNIT,
      /** The rate divided by the bound. A limit of 1 never brakes, even if late reports exceed it. */
      excess: bounded >= UNIT ? 0 : (hits * UNIT) / (bounded * finals),
    };
  }
}
