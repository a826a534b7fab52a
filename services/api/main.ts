import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { openHealthServer, READINESS_KEPT_MS } from '#core/platform/process/health.ts';
import { createAuditTrail } from '#core/platform/telemetry/audit-trail.ts';
import { createLineSink } from '#core/platform/telemetry/line-sink.ts';
import { createLogger, standardOutput } from '#core/platform/telemetry/logger.ts';
import { logReadiness } from '#core/platform/telemetry/log-readiness.ts';
import { createApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import { collectProcessMetrics } from '#core/platform/telemetry/process-metrics.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openKeyring } from '#core/platform/vault/open-keyring.ts';
import { clockOffsetSeconds } from '#core/store/upkeep/clock-offset.ts';
import { connectionStates, openPostgres } from '#core/platform/postgres/postgres.ts';
import { shareAnswer } from '#core/platform/process/share-answer.ts';
import { checkAtStart } from '#core/platform/process/check-at-start.ts';
import { drain, watchForEnd } from '#core/platform/process/shutdown.ts';
import { paced } from '#core/platform/telemetry/paced.ts';
import { startTelemetry, traceFields } from '#core/platform/telemetry/telemetry.ts';
import { VERSION } from '#core/platform/process/version.ts';
import { assertPeppers } from '#core/store/schema/assert-peppers.ts';
import { requiredSchemaVersion } from '#core/store/schema/migration-files.ts';
import { schemaReadiness } from '#core/store/schema/schema-readiness.ts';
import { DATABASE_DEADLINE_MS } from '#core/store/query/tenant-scope.ts';
import { buildApi } from './build-api.ts';
import { apiConfig } from './config.ts';

/** Longest wait for requests under way at shutdown. */
const DRAIN_MS = 15_000;
/** Length of the accept queue for connections that arrive at once, as after a rollout. The kernel's own limit applies too. */
const BACKLOG = 4_096;

const config = apiConfig(process.env);
const { observability, http, access } = config;
const log = createLogger({
  level: observability.logLevel,
  component: 'api',
  context: traceFields,
  destination: createLineSink(standardOutput()),
});
await using stack = new AsyncDisposableStack();
const watch = stack.use(watchForEnd(log));
stack.use(await startTelemetry({ ...observability.telemetry, serviceName: 'despatch-api' }));

const metrics = createApiMetrics(config.tenantMetrics);
collectProcessMetrics(metrics, { component: 'api', version: VERSION });
const database = { ...config.postgres, onCertificate: metrics.certificateOf('database') };
const sends = stack.use(openPostgres({ ...database, applicationName: 'despatch-api' }));
const { sql } = sends;
const reads = stack.use(
  openPostgres({
    ...database,
    poolMax: config.reads.connectionsMax,
    statementTimeoutMs: config.reads.timeoutMs,
    applicationName: 'despatch-api-read',
  }),
);
const changes = stack.use(
  openPostgres({
    ...database,
    poolMax: config.changes.connectionsMax,
    // Nobody waits longer for a change, whose slot is free then.
    statementTimeoutMs: Math.min(config.postgres.statementTimeoutMs, DATABASE_DEADLINE_MS),
    applicationName: 'despatch-api-change',
  }),
);
metrics.clockOffset.from(paced(() => clockOffsetSeconds(sql)));
metrics.poolConnections.from(paced(() => connectionStates(sql, [sends, reads, changes])));
const nats = stack.use(await openNats({ config: config.nats, log, name: 'despatch-api' }));
nats.onConnection(metrics.natsConnection);
const keyring = stack.use(
  await openKeyring(config.keyring, {
    log,
    onRequest: metrics.vaultRequest,
    onTokenExpiry: metrics.vaultTokenExpires,
    onCertificate: metrics.certificateOf('vault'),
  }),
);

const stopping = stack.adopt(new AbortController(), (one) => one.abort());
await checkAtStart(
  () => assertPeppers(sql, { key: access.pepper, receipt: config.receipts.pepper }),
  stopping.signal,
);

const api = await buildApi({
  sql,
  reads: { ...config.reads, sql: reads.sql },
  changes: { ...config.changes, sql: changes.sql },
  nats,
  keyring,
  metrics,
  log,
  audit: createAuditTrail(createLogger({ level: 'info', component: 'api', context: traceFields })),
  settings: {
    ...access,
    receiptPepper: config.receipts.pepper,
    webhooks: config.webhooks,
    publicBaseUrl: http.publicBaseUrl,
    trustProxy: http.trustProxy,
    httpLimits: http.limits,
  },
});
const schema = shareAnswer(
  schemaReadiness(sql, requiredSchemaVersion(), logReadiness(log)),
  READINESS_KEPT_MS,
);
const health = stack.use(
  await openHealthServer({
    ...observability.metrics,
    metrics,
    ready: async () => (watch.isEnding() ? { failing: ['ending'] } : schema()),
  }),
);
await api.app.listen({ ...http.listen, backlog: BACKLOG });
log.info({ port: (api.app.server.address() as AddressInfo).port, metricsPort: health.port }, 'Listening');

const ending = await watch.ended;
api.endConnections();
// Load balancers keep sending requests until they have seen that this process is not ready.
if (ending.kind === 'signal') await sleep(http.shutdownDelayMs);
await drain('requests', api.stop(), DRAIN_MS, log);
// Connections that are still open would keep the process from ending.
api.app.server.closeAllConnections();
