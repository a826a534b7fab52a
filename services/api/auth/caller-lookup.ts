import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { CallerFacts, DirectoryStore } from '#core/store/directory.ts';

/** Null where the id names no key. @throws QueueFullError under overload; else what the database throws. */
export type FindCaller = (keyId: string) => Promise<CallerFacts | null>;

const KEYS_MAX = 256;
const QUEUED_MAX = 4_000;

/** Longer than a query takes in a healthy database. */
const OVERLAP_AFTER_MS = 50;

/**
 * Looks up keys that come together in one query. With many tenants most requests find nothing fresh in memory; a query for
 * each of them would cost the database more than the messages themselves.
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
