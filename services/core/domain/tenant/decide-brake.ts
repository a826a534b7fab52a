import { BRAKE_LEVELS, BRAKE_WINDOW, type BrakeLevel, type BrakeReason } from './brake.ts';
import { finalGroups, type RatedMessages } from './final-groups.ts';
import type { Limits, RateLimitName } from './plan.ts';

/** Final messages of a tenant's channel, at most those since the last brake was lifted; see SQL `count_finals`. */
export type BrakeWindow = RatedMessages & {
  /**
   * The last final messages are counted in `finals`, at least `BRAKE_WINDOW` and less than one stretch more once there are enough;
   * beside them the reports that came together with a message's becoming final. All messages and reports are in the hours in
   * which the messages became final: the newest hour first.
   */
  readonly hours: readonly RatedMessages[];
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
 * holds the channel. A brake only becomes more severe: only a person can lift it. Of all rates, of the last messages and of each
 * group of hours, the one that exceeds its bound most is the reason.
 */
export function decideBrake(
  { level, hours, ...last }: BrakeWindow,
  limits: Pick<Limits, RateLimitName>,
): BrakeDecision | null {
  const [worst] = [last, ...finalGroups(hours)]
    .filter(({ finals }) => finals >= BRAKE_WINDOW)
    .flatMap(({ finals, hardBounces, complaints }) => [
      measure('hard_bounce_rate', hardBounces, finals, limits.hardBounceRateMax),
      measure('complaint_rate', complaints, finals, limits.complaintRateMax),
    ])
    .toSorted((a, b) => b.excess - a.excess);
  if (worst === undefined || worst.excess <= 1) return null;
  const next: BrakeLevel = worst.excess >= 2 ? 'held' : 'slowed';
  if (level !== null && BRAKE_LEVELS.indexOf(next) <= BRAKE_LEVELS.indexOf(level)) return null;
  const { reason, rate, bound } = worst;
  return { level: next, reason, rate, bound };
}

function measure(reason: BrakeReason, hits: number, finals: number, limit: number) {
  const bounded = Math.max(1, Math.round(limit * UNIT));
  return {
    reason,
    rate: Math.min(UNIT, Math.round((hits * UNIT) / finals)) / UNIT,
    bound: bounded / UNIT,
    /** The rate divided by the bound. A limit of 1 never brakes. */
    excess: bounded >= UNIT ? 0 : (hits * UNIT) / (bounded * finals),
  };
}
