import type { TenantId } from '#core/domain/ids.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { WebhookKey } from '#core/store/webhook-keys.ts';
import { createFreshCache } from '../auth/fresh-cache.ts';

/** A tenant's public keys; none of one that is none. @throws QueueFullError under overload; else what the database throws. */
export type FindPublicKeys = (tenantId: TenantId) => Promise<readonly WebhookKey[]>;

export type PublicKeysDeps = {
  readonly load: (tenantIds: readonly string[]) => Promise<ReadonlyMap<string, readonly WebhookKey[]>>;
};

const ENTRIES_MAX = 10_000;
const TENANTS_MAX = 256;
const QUEUED_MAX = 4_000;
/** Longer than a query takes in a healthy database. */
const OVERLAP_AFTER_MS = 50;

/**
 * Looks up the keys of tenants that are asked for together in one query. Anybody may ask, and for tenants that they made up: a
 * query for each of them would take the connections of everybody else's reads.
 */
export function createPublicKeys({ load }: PublicKeysDeps): FindPublicKeys {
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
  return (tenantId) => known.get(tenantId, () => looks.add(tenantId));
}
