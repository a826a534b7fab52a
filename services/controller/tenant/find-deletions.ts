import type { Logger } from '#core/platform/telemetry/logger.ts';
import { pause } from '#core/platform/process/pause.ts';
import type { ManagedTenantStore } from '#core/store/managed-tenants.ts';

/** Nothing tells of a deletion, and nobody waits for its end. */
const LOOK_MS = 5_000;
/** Tenants of one look; the next one goes on after them. */
const FOUND_AT_ONCE = 100;

export type DeletionSearch = {
  readonly store: Pick<ManagedTenantStore, 'tenantsToPurge'>;
  /** Asks for a pass over the tenant with this slug. */
  readonly found: (slug: string) => void;
  readonly log: Logger;
  /** Between two looks, in milliseconds. Default 5,000. */
  readonly everyMs?: number;
};

/**
 * Looks for tenants that the API deleted, until the signal is aborted: some at a time, all of them in turn. A look that
 * fails is logged, and the next one comes at its time. Never rejects.
 */
export async function findDeletions(
  { store, found, log, everyMs = LOOK_MS }: DeletionSearch,
  signal: AbortSignal,
): Promise<void> {
  let after: string | null = null;
  while (!signal.aborted) {
    try {
      const slugs: string[] = await store.tenantsToPurge(after, FOUND_AT_ONCE);
      for (const slug of slugs) found(slug);
      after = slugs.length < FOUND_AT_ONCE ? null : (slugs.at(-1) ?? null);
    } catch (error) {
      log.warn({ err: error }, 'Could not look for deleted tenants, and will look again');
    }
    await pause(everyMs, signal);
  }
}
