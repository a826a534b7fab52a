import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { WebhookKey } from '#core/store/webhooks/webhook-keys.ts';
import { createFreshCache } from '../caches/fresh-cache.ts';

export type PublicKeys = {
  /**
   * Returns a tenant's public keys; an empty list for an unknown tenant.
   * @throws QueueFullError under overload; otherwise the database's error.
   */
  readonly find: (tenantId: TenantId) => Promise<readonly WebhookKey[]>;
  /** Drops the cached keys of a tenant. */
  readonly drop: (tenantId: string) => void;
};

export type PublicKeysDeps = {
  readonly load: (tenantIds: readonly string[]) => Promise<ReadonlyMap<string, readonly WebhookKey[]>>;
};

const ENTRIES_MAX = 10_000;
const TENANTS_MAX = 256;
const QUEUED_MAX = 4_000;
/** Longer than a query takes on a healthy database. */
const OVERLAP_AFTER_MS = 50;

/**
 * Batches concurrent lookups of tenants' keys into one query. Anyone may ask, even for invented tenants: one query per
 * request would use up the connections for all reads.
 */
export function createPublicKeys({ load }: PublicKeysDeps): PublicKeys {
  const known = createFreshCache<readonly WebhookKey[]>(ENTRIES_MAX);
  const looks = createMicroBatch<string, readonly WebhookKey[]>({
    itemsMax: TENANTS_MAX,
    flushesMax: 2,
    overlapAfterMs: OVERLAP_AFTER_MS,
    queuedMax: QUEUED_MAX,
    async flush(tenantIds) {
      const found = await load(tenantIds);
      return tenantIds.map((id) => found.get(id) ?? []);
    },
  });
  return {
    find: (tenantId) => known.get(tenantId, () => looks.add(tenantId)),
    drop: (tenantId) => known.drop(tenantId),
  };
}
