import type { Condition } from './condition.ts';

/** The types of condition that this controller writes, by kind. Other writers may add theirs to the same list. */
export const CONDITION_TYPES = {
  Tenant: ['Ready', 'PlanResolved', 'Applied', 'KeyProvisioned', 'Suspended'],
  Plan: ['Ready', 'InUse'],
} as const;

/** Returns the conditions that this controller writes, without those of others. */
export function ownConditions(
  kind: keyof typeof CONDITION_TYPES,
  conditions: readonly Condition[] | undefined,
): Condition[] {
  const own: readonly string[] = CONDITION_TYPES[kind];
  return (conditions ?? []).filter(({ type }) => own.includes(type));
}

/** The current state of one condition; generation and time are added when it is written. */
export type Finding = {
  readonly type: string;
  readonly status: Condition['status'];
  /** CamelCase, for programs. */
  readonly reason: string;
  /** For people. Never contains a secret. */
  readonly message: string;
  /** Set when an earlier finding is repeated. Absent: the generation that the status is written for. */
  readonly observedGeneration?: number;
};

/**
 * Returns the conditions to write, one for each finding, in their order. A condition keeps its transition time unless its
 * status changed, so equal findings produce an equal list.
 */
export function conditionsOf(
  findings: readonly Finding[],
  before: readonly Condition[] | undefined,
  observedGeneration: number,
  now: Date,
): Condition[] {
  return findings.map(({ type, status, reason, message, observedGeneration: of = observedGeneration }) => {
    const earlier = before?.find((condition) => condition.type === type);
    const lastTransitionTime = earlier?.status === status ? earlier.lastTransitionTime : wholeSeconds(now);
    return { type, status, observedGeneration: of, lastTransitionTime, reason, message };
  });
}

/** Formats like `metav1.Time`: the API server would cut off fractions, and the next comparison would find a difference. */
export function wholeSeconds(time: Date): string {
  return time.toISOString().replace(/\.\d{3}Z$/, 'Z');
}
