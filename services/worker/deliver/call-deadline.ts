import type { AnyProvider } from '#providers/provider.ts';

/**
 * Part of a lease that a provider's own deadline may take. A call may begin late in its lease: its content alone may have been
 * awaited for a quarter of it.
 */
const LEASE_PART_MAX = 2 / 3;

export type CallLimits = {
  /** Total time of one call of a provider that asks for no more, in milliseconds. */
  readonly deadlineMs: number;
  /** Length of a claim's lease in milliseconds. */
  readonly leaseMs: number;
};

/** Returns the total time of one call of the provider in milliseconds: what it asks for, as far as the lease allows it. */
export function callDeadlineMs(
  { deadlineMs: ownMs = 0 }: Pick<AnyProvider, 'deadlineMs'>,
  { deadlineMs, leaseMs }: CallLimits,
): number {
  return Math.max(deadlineMs, Math.min(ownMs, Math.floor(leaseMs * LEASE_PART_MAX)));
}
