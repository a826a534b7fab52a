import type { FastifyInstance } from 'fastify';
import { addressKeyRoot } from '#core/domain/address-key.ts';
import type { AuditEntry, AuditTrail } from '#core/domain/audit-entry.ts';
import {
  decodeNotice,
  encodeNotice,
  isNoticeKind,
  type Notice,
  type NoticeKind,
  type PublishNotice,
} from '#core/domain/notice.ts';
import type { Secret } from '#core/domain/secret.ts';
import { receiptKey } from '#core/domain/receipt-token.ts';
import { unsubscribeKey } from '#core/domain/unsubscribe-token.ts';
import { deriveSubkeys } from '#core/domain/subkeys.ts';
import type { Nats } from '#core/platform/nats/broker.ts';
import { addressBlocker, addressOpener } from '#core/platform/http/egress-guard.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { ApiMetrics } from '#core/platform/telemetry/metrics.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { acceptMessages, type AcceptRow } from '#core/store/acceptance.ts';
import { acceptWholeBatch, tryBatch, type BatchAcceptance } from '#core/store/batch-acceptance.ts';
import { forgetContent, storeContent } from '#core/store/contents.ts';
import { directoryStore } from '#core/store/directory.ts';
import { loadReceiptAccounts, storeReceiptCalls, type NewReceiptCall } from '#core/store/receipt-calls.ts';
import { loadMessageIdKey, reserveMessageSeqs } from '#core/store/message-places.ts';
import { DATABASE_DEADLINE_MS } from '#core/store/tenant-scope.ts';
import type { AdminDeps } from './admin/admin-deps.ts';
import { createAcceptBatcher } from './messages/accept-batcher.ts';
import { createBatchAccepts } from './messages/batch-accepts.ts';
import { apiRoutes } from './api-routes.ts';
import { buildApp } from './app.ts';
import { createAuthentication } from './auth/authenticate.ts';
import { createTokenVerifier, type OidcConfig } from './auth/bearer.ts';
import { createCallerLookup } from './auth/caller-lookup.ts';
import { createCursors } from './http/cursor.ts';
import type { HttpLimits } from './http/http-limits.ts';
import type { HttpMetrics } from './http/http-metrics.ts';
import { createLargeContents } from './messages/large-contents.ts';
import { createIdLoader } from '#core/domain/id-loader.ts';
import { createMessagePlaces } from './messages/message-places.ts';
import { sendRateLimit } from './messages/new-message.ts';
import { DEFAULT_DOWNLOAD_LIMITS, type DownloadLimits } from './http/download-time.ts';
import { createReads, type ReadsOptions } from './http/reads.ts';
import { createSharedSlots } from './http/shared-slots.ts';
import { createRateMemory } from './auth/rate-memory.ts';
import { createServiceKeys } from './auth/service-keys.ts';
import { createCountedAccounts } from './receipts/counted-accounts.ts';
import { createFullAccounts } from './receipts/full-accounts.ts';
import { createReceiptAccounts } from './receipts/receipt-accounts.ts';
import { createReceiptBatcher } from './receipts/receipt-batcher.ts';
import { createReceiptWakes } from './receipts/receipt-wakes.ts';
import { suppressRecipient } from './unsubscribe/suppress-recipient.ts';
import { createUncountedSends, type UncountedSends } from './auth/uncounted-sends.ts';

export type ApiSettings = {
  /** Root secret of all keys that the api derives. */
  readonly pepper: Secret;
  /** Root secret of the tokens in receipt URLs and of the hashes of suppressed addresses. */
  readonly receiptPepper: Secret;
  readonly oidc: OidcConfig;
  /** Token subjects that are platform admins. */
  readonly platformAdmins: readonly string[];
  readonly selfServeTenants: boolean;
  /** Maximum number of tenants owned or created by a user who is not a platform admin. */
  readonly tenantsPerUserMax: number;
  /** Rules for endpoint URLs: ranges that the operator opens, whether http is allowed, and which ports. */
  readonly webhooks: {
    readonly allowCidrs: readonly string[];
    readonly allowHttp: boolean;
    readonly ports: readonly number[];
  };
  readonly publicBaseUrl: string;
  readonly trustProxy: boolean | readonly string[];
  readonly httpLimits?: HttpLimits;
  readonly downloadLimits?: DownloadLimits;
};

export type ApiDeps = {
  readonly sql: Sql;
  /** Connections used only for reads. */
  readonly reads: Omit<ReadsOptions, 'cancelSql'>;
  /** Connections for everything beside sends and reads, so that no send waits behind it. */
  readonly changes: { readonly sql: Sql; readonly connectionsMax: number };
  readonly nats: Pick<Nats, 'isConnected' | 'publishWakes' | 'publishNotice' | 'onNotice'>;
  readonly keyring: KeyEncrypter;
  readonly metrics: ApiMetrics;
  readonly log: Logger;
  readonly audit: AuditTrail;
  readonly settings: ApiSettings;
};

export type Api = {
  readonly app: FastifyInstance;
  /**
   * From now on every answer closes its connection. Requests are still accepted: otherwise a client could send its next
   * request on a reused connection just as the connection is closed.
   */
  readonly endConnections: () => void;
  /** Stops accepting requests, answers all accepted ones, and stores what is still only in memory. */
  readonly stop: () => Promise<void>;
};

/** Interval between two writes of key usage; `lastUsedAt` may lag by a minute (SQL `touch_api_keys`). */
const TOUCH_EVERY_MS = 5_000;

/**
 * Changes that wait for their turn; a request that waits longer than a transaction may take is answered with 503. Changes of one
 * tenant also wait for each other in the database.
 */
const WAITING_CHANGES = {
  waitingPerOwnerMax: 200,
  waitingMax: 1_000,
  waitMsMax: DATABASE_DEADLINE_MS,
};

/** Concurrent imports: one per tenant. A waiting import holds its file in memory, which is reserved. */
const IMPORT_SLOTS = { slots: 2, waitingPerOwnerMax: 1, waitingMax: 32, waitMsMax: 20_000 };
/** Concurrent exports: one per tenant. Each holds some rows in memory until its client has read them. */
const EXPORT_SLOTS = {
  slots: 32,
  heldPerOwnerMax: 1,
  waitingPerOwnerMax: 1,
  waitingMax: 32,
  waitMsMax: 20_000,
};
/** Concurrent reads of exports, so that these leave most of the connections for reads to others. */
const EXPORT_READ_SLOTS = {
  slots: 2,
  waitingPerOwnerMax: 1,
  waitingMax: EXPORT_SLOTS.slots,
  waitMsMax: 20_000,
};

/** Assembles the api. Opens no connection and does not listen. */
export async function buildApi(deps: ApiDeps): Promise<Api> {
  const { sql, nats, metrics, log, settings } = deps;
  const subkeys = deriveSubkeys(settings.pepper);
  const cursors = createCursors(subkeys.cursor);
  const addressKeys = addressKeyRoot(settings.receiptPepper);
  const changes = deps.changes.sql;
  const directory = timedStore(directoryStore(sql), metrics.database);
  const serviceKeys = createServiceKeys({
    findCaller: createCallerLookup(directory),
    touchApiKeys: directory.touchApiKeys,
    hashSubkey: subkeys['key-hash'],
  });
  const uncounted = createUncountedSends();
  const { authenticate, readmit, onNotice } = createAuthentication({
    directory: timedStore(directoryStore(changes), metrics.database),
    audit: deps.audit,
    serviceKeys,
    verifyToken: createTokenVerifier(settings.oidc),
    platformAdmins: new Set(settings.platformAdmins),
    sendLimit: sendRateLimit,
    holdSender(caller) {
      const { name, value: limit } = sendRateLimit(caller);
      const retryAfter = uncounted.retryAfter(caller.key.id, limit);
      if (retryAfter === undefined) return undefined;
      metrics.rejected('rate', caller.tenant.id);
      return { name, limit, passed: false, remaining: 0, retryAfter };
    },
  });
  const warned = (entry: AuditEntry): void => {
    metrics.limitWarned(entry.action === 'limit.reached' ? 'reached' : 'approaching');
    deps.audit(entry);
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
      forgetContent: (row: AcceptRow) => forgetContent(sql, row),
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

  const counted = createCountedAccounts({ now: () => performance.now() });
  const receiptStore = timedStore(
    {
      loadReceiptAccounts: (ids: readonly string[]) => loadReceiptAccounts(sql, ids),
      storeReceiptCalls: (calls: readonly NewReceiptCall[]) =>
        storeReceiptCalls(sql, calls, counted.due(calls)),
    },
    metrics.database,
  );
  const receiptUrls = {
    key: receiptKey(settings.receiptPepper),
    publicBaseUrl: settings.publicBaseUrl,
  };
  const receiptAccounts = createReceiptAccounts(receiptStore);
  const receiptWakes = createReceiptWakes(wakes);
  const receiptBatcher = createReceiptBatcher({ ...receiptStore, onStored: receiptWakes.note });

  const read = createReads({ ...deps.reads, cancelSql: sql });
  const drop = (kind: NoticeKind, notice: Notice): void => {
    onNotice(kind, notice);
    if (kind === 'tenant' || kind === 'account') receiptAccounts.drop(notice);
  };
  const notify: PublishNotice = (kind, notice) => {
    drop(kind, notice);
    nats.publishNotice(kind, encodeNotice(notice));
  };
  const endNotices = nats.onNotice('*', (kind, payload) => {
    const notice = decodeNotice(payload);
    if (notice !== null && isNoticeKind(kind)) drop(kind, notice);
  });

  const slots = createSharedSlots({
    ...WAITING_CHANGES,
    // The last one is left for statements that wait for nobody.
    slots: deps.changes.connectionsMax - 1,
    heldPerOwnerMax: Math.ceil((deps.changes.connectionsMax - 1) / 2),
  });
  const admin: AdminDeps = {
    sql: changes,
    slots,
    read,
    keyring: deps.keyring,
    cursors,
    subkeys,
    receiptUrls,
    notify,
    audit: deps.audit,
    isBlockedHost: addressBlocker(settings.webhooks.allowCidrs),
    selfServeTenants: settings.selfServeTenants,
    tenantsPerUserMax: settings.tenantsPerUserMax,
  };
  const sends = { ...metrics, replayed: () => metrics.idempotencyReplays.inc() };
  const app = await buildApp(
    {
      authenticate,
      readmit,
      log,
      metrics: withSends(metrics, uncounted),
      fingerprintKey: subkeys.fingerprint,
      trustProxy: settings.trustProxy,
      ...(settings.httpLimits === undefined ? {} : { limits: settings.httpLimits }),
      publicBaseUrl: settings.publicBaseUrl,
    },
    apiRoutes({
      send: {
        sql,
        replays: { sql: changes, slots },
        places,
        batcher,
        batches,
        addressKeys,
        fingerprintKey: subkeys.fingerprint,
        contents: createLargeContents(contents),
        rateMemory: createRateMemory(),
        noteUncounted: uncounted.note,
        metrics: sends,
      },
      cancel: { sql: changes, read, cursors, loadIds, slots, audit: deps.audit, metrics, notify },
      retry: {
        sql: changes,
        loadIds,
        places,
        slots,
        addressKeys,
        wakes,
        audit: deps.audit,
        warned,
        metrics: sends,
      },
      erase: { sql: changes, loadIds, slots, audit: deps.audit },
      read: { read, cursors, loadIds },
      events: { read, cursors, loadIds },
      receipts: {
        ...receiptUrls,
        accounts: receiptAccounts,
        batcher: receiptBatcher,
        full: createFullAccounts(),
      },
      admin,
      suppressions: {
        ...admin,
        addressKeys,
        imports: createSharedSlots(IMPORT_SLOTS),
        exports: createSharedSlots(EXPORT_SLOTS),
        exportReads: createSharedSlots(EXPORT_READ_SLOTS),
        downloadLimits: settings.downloadLimits ?? DEFAULT_DOWNLOAD_LIMITS,
      },
      unsubscribe: {
        key: unsubscribeKey(settings.receiptPepper),
        unsubscribe: (request) =>
          suppressRecipient(
            { ...admin, addressKeys, onUnsubscribed: () => metrics.unsubscribes.inc() },
            request,
          ),
        now: () => Date.now(),
      },
      webhooks: {
        ...admin,
        read,
        loadIds,
        urlRules: {
          allowHttp: settings.webhooks.allowHttp,
          ports: settings.webhooks.ports,
          isOpenHost: addressOpener(settings.webhooks.allowCidrs),
          isBlockedHost: admin.isBlockedHost,
        },
      },
    }),
  );
  let isEnding = false;
  app.addHook('onSend', (_request, reply, _payload, done) => {
    // A client that keeps its connection open would keep this process running.
    if (isEnding) reply.header('connection', 'close');
    done();
  });
  await app.ready();

  const touching = setInterval(() => {
    serviceKeys
      .flushUsed()
      .catch((error: unknown) => log.warn({ err: error }, 'Use of keys was not written down'));
  }, TOUCH_EVERY_MS);
  touching.unref();

  return {
    app,
    endConnections() {
      isEnding = true;
    },
    async stop() {
      isEnding = true;
      clearInterval(touching);
      await app.close();
      await batcher.drain();
      await batches.drain();
      await receiptBatcher.drain();
      receiptWakes.stop();
      endNotices();
      await serviceKeys
        .flushUsed()
        .catch((error: unknown) => log.warn({ err: error }, 'Use of keys was not written down'));
    },
  };
}

const SENDS: ReadonlySet<string> = new Set(['/v1/messages', '/v1/messages/batch']);

/** Observes sends that never reached the accept path, and sends that no limit counted. */
function withSends(metrics: ApiMetrics, uncounted: UncountedSends): HttpMetrics {
  return {
    routeKnown: metrics.routeKnown,
    requestMemory: metrics.requestMemory,
    bodyRefused: metrics.bodyRefused,
    requestStarted: metrics.requestStarted,
    requestFinished: metrics.requestFinished,
    requestAnswered(request: Parameters<HttpMetrics['requestAnswered']>[0]): void {
      const { method, route, statusCode, keyId, errorCode, isReplay } = request;
      if (method !== 'POST' || !SENDS.has(route)) return;
      if (statusCode === 400) metrics.rejected('validation', request.tenantId);
      // A send refused with `rate_limited` did no further work, so it is not counted.
      const isRefused = statusCode >= 400 && statusCode < 500 && errorCode !== 'rate_limited';
      if (keyId !== null && (isReplay || isRefused)) uncounted.note(keyId);
    },
  };
}
