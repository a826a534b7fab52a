import type { FastifyInstance } from 'fastify';
import { epochMs } from '#core/domain/clock.ts';
import { addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import type { Secret } from '#core/domain/storage/secret.ts';
import { receiptKey } from '#core/domain/receipts/receipt-token.ts';
import { unsubscribeKey } from '#core/domain/recipient/unsubscribe-token.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import { addressBlocker, addressOpener } from '#core/platform/http/egress-guard.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { ApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { directoryStore } from '#core/store/tenants/directory.ts';
import { loadWebhookKeys } from '#core/store/webhooks/webhook-keys.ts';
import type { AdminDeps } from './admin/admin-deps.ts';
import { apiRoutes } from './api-routes.ts';
import { buildApp } from './app.ts';
import { createAuthentication } from './auth/authenticate.ts';
import { createTokenVerifier, type OidcConfig } from './auth/bearer.ts';
import { createCallerLookup } from './auth/caller-lookup.ts';
import { createCursors } from './http/lists/cursor.ts';
import type { HttpLimits } from './http/admission/http-limits.ts';
import { sendRateLimit } from './messages/new-message.ts';
import { DEFAULT_DOWNLOAD_LIMITS, type DownloadLimits } from './http/lists/download-time.ts';
import { createReads, type ReadsOptions } from './http/lists/reads.ts';
import { createSharedPauses } from './http/admission/shared-pauses.ts';
import { createRateMemory } from './caches/rate-memory.ts';
import { createServiceKeys } from './auth/service-keys.ts';
import { createNoticeExchange } from './auth/notice-exchange.ts';
import { writeKeyUse } from './auth/key-use.ts';
import { createChangeSlots } from './changes/change-slots.ts';
import { createFileSlots } from './suppressions/file-slots.ts';
import { observeSends } from './messages/observe-sends.ts';
import { createFullLimits } from './messages/full-limits.ts';
import { createSending } from './messages/sending.ts';
import { createReceiptIntake } from './receipts/receipt-intake.ts';
import { createPublicKeys } from './webhooks/public-keys.ts';
import { suppressRecipient } from './unsubscribe/suppress-recipient.ts';
import { createUncountedSends, uncountedLimit } from './auth/uncounted-sends.ts';

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
  /** Connections for everything except sends, receipts and reads, so that no send waits behind it. */
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
    verifyToken: createTokenVerifier(settings.oidc, (error) => {
      metrics.issuerKeysFailed();
      log.warn({ err: error }, 'No keys of the issuer');
    }),
    platformAdmins: new Set(settings.platformAdmins),
    sendLimit: sendRateLimit,
    refusalBeforeWork(caller) {
      const { value: sends } = sendRateLimit(caller);
      const retryAfter = uncounted.retryAfter(caller.key.id, sends);
      if (retryAfter === undefined) return undefined;
      metrics.rejected('rate', caller.tenant.id);
      const { name, value: limit } = uncountedLimit(sends);
      return { name, limit, passed: false, remaining: 0, retryAfter };
    },
  });
  const sending = createSending({ sql, nats, metrics, log, audit: deps.audit });
  const { loadIds, places, batcher, batches, wakes, warned } = sending;
  const receiving = createReceiptIntake({ sql, metrics, wakes });
  const receiptUrls = {
    key: receiptKey(settings.receiptPepper),
    publicBaseUrl: settings.publicBaseUrl,
  };
  const read = createReads({ ...deps.reads, cancelSql: sql });
  const publicKeys = createPublicKeys({ load: (ids) => loadWebhookKeys(changes, ids) });
  const notices = createNoticeExchange(nats, (kind, notice) => {
    onNotice(kind, notice);
    if (kind === 'tenant' || kind === 'account') receiving.accounts.drop(notice);
    if (kind === 'webhook_key') publicKeys.drop(notice.tenantId);
  });
  const { notify } = notices;
  const slots = createChangeSlots(deps.changes.connectionsMax);
  const pauses = createSharedPauses();
  const admin: AdminDeps = {
    sql: changes,
    slots,
    pauses,
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
      metrics: observeSends(metrics, uncounted),
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
        contents: sending.contents,
        pauses,
        rateMemory: createRateMemory(),
        fullLimits: createFullLimits(),
        uncounted,
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
        ...receiving,
      },
      admin,
      suppressions: {
        ...admin,
        addressKeys,
        ...createFileSlots(),
        downloadLimits: settings.downloadLimits ?? DEFAULT_DOWNLOAD_LIMITS,
      },
      unsubscribe: {
        key: unsubscribeKey(settings.receiptPepper),
        unsubscribe: (request) =>
          suppressRecipient(
            { ...admin, addressKeys, onUnsubscribed: () => metrics.unsubscribes.inc() },
            request,
          ),
        epochMs,
      },
      webhooks: {
        ...admin,
        read,
        loadIds,
        publicKeys,
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

  const keyUse = writeKeyUse(serviceKeys, log);

  return {
    app,
    endConnections() {
      isEnding = true;
    },
    async stop() {
      isEnding = true;
      await app.close();
      await sending.drain();
      await receiving.stop();
      notices.end();
      await keyUse.stop();
    },
  };
}
