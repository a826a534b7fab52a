/** A look that is not repeated for this long says nothing about who is behind now. */
const LOOK_AGE_MAX_MS = 30_000;

/**
 * Tenants with an endpoint that was behind when it was looked at: whoever asks how far they are behind need not read all endpoints.
 * Workers look every few seconds, at tenants that were given events since the last look, and at all where that is not enough.
 */
export function behindTenants(now: () => number = () => performance.now()) {
  const known = new Set<string>();
  /** Since then each tenant that is behind is known. */
  let completeAt = -Infinity;

  return {
    /** @param isComplete no others are behind but those that were found before. */
    found(tenantIds: readonly string[], isComplete: boolean): void {
      for (const id of tenantIds) known.add(id);
      if (isComplete) completeAt = now();
    },
    /** Undefined where nobody has looked lately. */
    all: (): readonly string[] | undefined => (now() - completeAt > LOOK_AGE_MAX_MS ? undefined : [...known]),
    /** Of the `asked` ones these are behind still. */
    left(asked: readonly string[], behind: readonly string[]): void {
      for (const id of asked) known.delete(id);
      for (const id of behind) known.add(id);
    },
  };
}
