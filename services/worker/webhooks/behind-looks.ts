import type { MonotonicClock } from '#core/domain/clock.ts';
import { createDutyCycle } from '#core/domain/queue/duty-cycle.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';

export type BehindLooksDeps = {
  readonly store: Pick<WebhookStore, 'tenantsBehind' | 'endpointsBehind'>;
  /** Called with the tenants whose events must be matched. */
  readonly onBehind: (tenantIds: readonly string[]) => void;
  readonly isStopping: () => boolean;
  readonly monotonicMs?: MonotonicClock;
};

/** Endpoints per query of a full look. */
const ENDPOINTS_AT_ONCE = 500;

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
  monotonicMs = () => performance.now(),
}: BehindLooksDeps): () => Promise<void> {
  let pass: number | null = null;
  let behind: readonly string[] = [];
  const full = createDutyCycle(monotonicMs);

  async function lookAtAll(): Promise<void> {
    full.begun();
    let after: string | null = null;
    do {
      const { tenantIds, next } = await store.endpointsBehind(after, ENDPOINTS_AT_ONCE);
      after = next;
      onBehind(tenantIds);
    } while (after !== null && !isStopping());
    full.ended();
  }

  return async () => {
    const { tenantIds, newestPass, isWhole } = await store.tenantsBehind(pass, behind);
    onBehind(tenantIds);
    behind = tenantIds;
    if (!isWhole || full.isDue()) await lookAtAll();
    // Advanced only here, so that a failed full look is repeated by the next look.
    pass = newestPass;
  };
}
