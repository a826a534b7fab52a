import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { CallerFacts, DirectoryStore } from '#core/store/tenants/directory.ts';

/** Resolves to null when no key has this id. @throws QueueFullError under overload; otherwise the database's error. */
export type FindCaller = (keyId: string) => Promise<CallerFacts | null>;

/**
 * An answer has the accounts of each key's tenant, up to 350 KiB for thousands of accounts. Other callers wait while it is parsed.
 */
const KEYS_MAX = 32;
const QUEUED_MAX = 4_000;

/** Longer than the query takes in a healthy database. */
const OVERLAP_AFTER_MS = 50;

/**
 * Batches concurrent key lookups into one query. With many tenants most requests miss the cache; one query per request
 * would cost the database more than the messages themselves.
 */
export function createCallerLookup({ findCallers }: Pick<DirectoryStore, 'findCallers'>): FindCaller {
  const batch = createMicroBatch<string, CallerFacts | null>({
    itemsMax: KEYS_MAX,
    flushesMax: 2,
    overlapAfterMs: OVERLAP_AFTER_MS,
    queuedMax: QUEUED_MAX,
    async flush(keyIds) {
      const found = await findCallers(keyIds);
      return keyIds.map((keyId) => found.get(keyId) ?? null);
    },
  });
  return (keyId) => batch.add(keyId);
}
