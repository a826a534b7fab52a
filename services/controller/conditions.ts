import type { Condition } from './resources/condition.ts';

/** What is said of a resource now; generation and time are added where it is written. */
export type Finding = {
  readonly type: string;
  readonly status: Condition['status'];
  /** CamelCase, for programs. */
  readonly reason: string;
  /** For people. Never a secret. */
  readonly message: string;
  /** Of what was found out earlier and is only said again. Absent: the generation that is written about. */
  readonly observedGeneration?: number;
};

/**
 * Conditions as they are to be written: one for each finding, in their order. A condition keeps its time unless its
 * status has changed, so that equal findings make an equal list.
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

/** The form of `metav1.Time`: the API server would cut the rest off, and the next comparison find a difference. */
export function wholeSeconds(time: Date): string {
  return time.toISOString().replace(/\.\d{3}Z$/, 'Z');
}
