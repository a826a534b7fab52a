import type { Logger } from '#core/platform/telemetry/logger.ts';
import { pause } from '#core/platform/process/pause.ts';
import type { ManagedTenantStore } from '#core/store/tenants/managed-tenants.ts';

/** A deletion sends no notification, and nobody waits for its end. */
const LOOK_MS = 5_000;
/** Tenants per poll; the next poll continues after them. */
const FOUND_AT_ONCE = 100;

export type DeletionSearch = {
  readonly store: Pick<ManagedTenantStore, 'tenantsToPurge'>;
  /** Requests a pass over the tenant with this slug; called again by every poll that still finds it. */
  readonly found: (slug: string) => void;
  readonly log: Logger;
  /** Interval between two polls, in milliseconds. Default 5,000. */
  readonly everyMs?: number;
};

/**
 * Polls for deleted tenants, of which a resource may already be gone, until the signal aborts: a page at a time, in turn. A failed poll is
 * logged, and the next one follows at its usual time. Never rejects.
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
