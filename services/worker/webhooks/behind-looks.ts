import type { WebhookStore } from '#core/store/webhook-deliveries.ts';

export type BehindLooksDeps = {
  readonly store: Pick<WebhookStore, 'tenantsBehind' | 'endpointsBehind'>;
  /** Called with the tenants whose events must be matched. */
  readonly onBehind: (tenantIds: readonly string[]) => void;
  readonly isStopping: () => boolean;
  readonly now?: () => number;
};

/** Endpoints per query of a full look. */
const ENDPOINTS_AT_ONCE = 500;
/** Full looks take at most one part in this many of the time. */
const FULL_LOOKS_PART = 50;

/**
 * Creates a look for endpoints that are behind, for any reason: after a crash, or after a lost hand-over. A look checks tenants
 * that got events since the last look and tenants that were behind then, so that idle tenants cost nothing. A full look checks
 * all endpoints: the first time, when too many passes of the numbering have gone by, and otherwise as long as full looks take at
 * most a fiftieth of the time.
 */
export function createBehindLooks({
  store,
  onBehind,
  isStopping,
  now = () => performance.now(),
}: BehindLooksDeps): () => Promise<void> {
  let pass: number | null = null;
  let behind: readonly string[] = [];
  let nextFullAt = -Infinity;

  async function lookAtAll(): Promise<void> {
    const begunAt = now();
    let after: string | null = null;
    do {
      const { tenantIds, next } = await store.endpointsBehind(after, ENDPOINTS_AT_ONCE);
      after = next;
      onBehind(tenantIds);
    } while (after !== null && !isStopping());
    nextFullAt = now() + FULL_LOOKS_PART * (now() - begunAt);
  }

  return async () => {
    const { tenantIds, newestPass, isWhole } = await store.tenantsBehind(pass, behind);
    onBehind(tenantIds);
    behind = tenantIds;
    if (!isWhole || now() >= nextFullAt) await lookAtAll();
    // Advanced only here, so that a failed full look is repeated by the next look.
    pass = newestPass;
  };
}
