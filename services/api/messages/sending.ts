import type { AuditEntry, AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createIdLoader, type LoadIds } from '#core/domain/storage/id-loader.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { ApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import { acceptMessages, type AcceptRow } from '#core/store/messages/acceptance.ts';
import { acceptWholeBatch, tryBatch, type BatchAcceptance } from '#core/store/messages/batch-acceptance.ts';
import { forgetContents, storeContent } from '#core/store/messages/contents.ts';
import { loadMessageIdKey, reserveMessageSeqs } from '#core/store/messages/message-places.ts';
import { createAcceptBatcher, type AcceptBatcher } from './accept-batcher.ts';
import { createBatchAccepts, type BatchAccepts } from './batch-accepts.ts';
import { createLargeContents, type LargeContents } from './large-contents.ts';
import { createMessagePlaces, type MessagePlaces } from './message-places.ts';

export type SendingDeps = {
  readonly sql: Sql;
  readonly nats: Pick<Nats, 'isConnected' | 'publishWakes'>;
  readonly metrics: ApiMetrics;
  readonly log: Logger;
  readonly audit: AuditTrail;
};

/** What accepts messages: gives them places, stores them in shared commits, and wakes workers. */
export type Sending = {
  readonly loadIds: LoadIds;
  readonly places: MessagePlaces;
  readonly contents: LargeContents;
  readonly batcher: AcceptBatcher;
  readonly batches: BatchAccepts;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  /** Called with an audit entry that says a tenant's daily limit is near or reached. */
  readonly warned: (entry: AuditEntry) => void;
  /** Waits until everything that was accepted for storing is stored. */
  readonly drain: () => Promise<void>;
};

export function createSending({ sql, nats, metrics, log, audit }: SendingDeps): Sending {
  const warned = (entry: AuditEntry): void => {
    metrics.limitWarned(entry.action === 'limit.reached' ? 'reached' : 'approaching');
    audit(entry);
  };
  const acceptance = timedStore(
    {
      accept: (rows: readonly AcceptRow[], sweepAfterMs: number) =>
        acceptMessages(sql, rows, sweepAfterMs, { warned }),
      acceptBatch: (batch: BatchAcceptance, sweepAfterMs: number) =>
        acceptWholeBatch(sql, batch, sweepAfterMs, { warned }),
      reserveMessageSeqs: () => reserveMessageSeqs(sql),
      loadMessageIdKey: () => loadMessageIdKey(sql),
    },
    metrics.database,
  );
  const contents = timedStore(
    {
      storeContent: (row: AcceptRow, content: string) => storeContent(sql, row, content),
      forgetContents: (tenantId: TenantId, seqs: readonly number[]) => forgetContents(sql, tenantId, seqs),
    },
    metrics.database,
  );
  const loadIds = createIdLoader(acceptance.loadMessageIdKey);
  const places = createMessagePlaces({ reserve: acceptance.reserveMessageSeqs, loadIds });
  const wakes: Pick<Nats, 'isConnected' | 'publishWakes'> = {
    isConnected: nats.isConnected,
    async publishWakes(publications) {
      const end = metrics.publishSeconds.startTimer();
      const result = await nats.publishWakes(publications);
      end();
      metrics.publications.inc(publications.length);
      metrics.publishErrors.inc(result.failed.length);
      return result;
    },
  };
  const batcher = createAcceptBatcher({
    acceptMessages: acceptance.accept,
    onPlaceRefused: places.drop,
    wakes,
  });
  const batches = createBatchAccepts({
    acceptBatch: acceptance.acceptBatch,
    // Not timed: these probes are expected to fail.
    tryBatch: (rows, sweepAfterMs) => tryBatch(sql, rows, sweepAfterMs),
    onRefused: ({ id, tenant_id: tenantId, request_id: requestId, batch_id: batchId }, error) =>
      log.error({ messageId: id, tenantId, requestId, batchId, err: error }, 'Message of a batch is refused'),
    onPlaceRefused: places.drop,
    wakes,
  });

  return {
    loadIds,
    places,
    contents: createLargeContents(contents),
    batcher,
    batches,
    wakes,
    warned,
    async drain() {
      await batcher.drain();
      await batches.drain();
    },
  };
}
