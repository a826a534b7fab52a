import { BRAKE_LEVELS, BRAKE_WINDOW, type BrakeLevel, type BrakeReason } from './brake.ts';
import type { Limits, RateLimitName } from './plan.ts';

/** The last final messages of a tenant's channel, since the last brake was lifted at most. */
export type BrakeWindow = {
  /** Once there were as many, at least `BRAKE_WINDOW` and fewer than a stretch more. */
  readonly finals: number;
  /** Addresses that do not exist, as providers have said meanwhile. */
  readonly hardBounces: number;
  readonly complaints: number;
  /** Of the brake that is on; null without one. */
  readonly level: BrakeLevel | null;
};

export type BrakeDecision = {
  readonly level: BrakeLevel;
  readonly reason: BrakeReason;
  /** From 0 to 1, with four decimals. */
  readonly rate: number;
  readonly bound: number;
};

/** Rates and bounds have four decimals: they are compared as whole numbers, so that a rate that equals its bound does. */
const UNIT = 10_000;

/**
 * Which brake to apply; null to leave it as it is. Beyond its bound a rate slows the channel, at twice of it or more it
 * holds it. A brake only grows: what makes it go is a person's decision. Of two rates the one that is further beyond its
 * bound is the reason.
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
      /** How many times the bound the rate is. A limit of 1 never brakes, however many late reports there are. */
      excess: bounded >= UNIT ? 0 : (hits * UNIT) / (bounded * finals),
    };
  }
}
