import type { WebhookStore } from '#core/store/webhook-deliveries.ts';

export type BehindLooksDeps = {
  readonly store: Pick<WebhookStore, 'tenantsBehind' | 'endpointsBehind'>;
  /** These tenants are to be matched further. */
  readonly onBehind: (tenantIds: readonly string[]) => void;
  readonly isStopping: () => boolean;
  readonly now?: () => number;
};

/** Endpoints in one call of a look at all. */
const ENDPOINTS_AT_ONCE = 500;
/** Looks at all take this part of the time at most. */
const FULL_LOOKS_PART = 50;

/**
 * Looks for endpoints that are behind, whatever the reason: after a crash, or when a hand-over was missed. A look is at tenants that
 * were given events since the last one, and at those that were behind then: what has nothing new costs nothing. All endpoints
 * are looked at first, where too many passes of the numbering have gone by, and as long as that takes a fiftieth of the time at most.
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
    // Only now: where a look at all has failed, the next one is at all too.
    pass = newestPass;
  };
}
