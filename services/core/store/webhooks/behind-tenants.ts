import type { MonotonicClock } from '#core/domain/clock.ts';

/** Tenants with an endpoint that was behind when a worker looked. */
export type BehindTenants = {
  /** @param look `isComplete`: whether no tenant is behind except those found so far. */
  found(tenantIds: readonly string[], look: { readonly isComplete: boolean }): void;
  /** Returns undefined if there was no complete look lately. */
  all(): readonly string[] | undefined;
  /** Replaces the state of the `asked` tenants: only those in `behind` are still behind. */
  left(asked: readonly string[], behind: readonly string[]): void;
};

/** Findings older than this no longer tell which tenants are behind. */
const LOOK_AGE_MAX_MS = 30_000;

/**
 * Remembers tenants with an endpoint that was behind when a worker looked, so that measuring the delay need not read all
 * endpoints. Workers look every few seconds: at tenants with new events since the last look, or at all tenants if that does not
 * suffice.
 */
export function createBehindTenants(monotonicMs: MonotonicClock = () => performance.now()): BehindTenants {
  const known = new Set<string>();
  /** When `known` last contained every tenant that was behind. */
  let completeAt = -Infinity;

  return {
    found(tenantIds, { isComplete }) {
      for (const id of tenantIds) known.add(id);
      if (isComplete) completeAt = monotonicMs();
    },
    all: () => (monotonicMs() - completeAt > LOOK_AGE_MAX_MS ? undefined : [...known]),
    left(asked, behind) {
      for (const id of asked) known.delete(id);
      for (const id of behind) known.add(id);
    },
  };
}
