import { epochMs } from '#core/domain/clock.ts';
import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { openHealthServer, READINESS_KEPT_MS } from '#core/platform/process/health.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { createHostResolver } from '#core/platform/http/host-resolver.ts';
import { createAuditTrail } from '#core/platform/telemetry/audit-trail.ts';
import { createLineSink } from '#core/platform/telemetry/line-sink.ts';
import { createLogger, standardOutput } from '#core/platform/telemetry/logger.ts';
import { logReadiness } from '#core/platform/telemetry/log-readiness.ts';
import { collectProcessMetrics } from '#core/platform/telemetry/process-metrics.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openKeyring } from '#core/platform/vault/open-keyring.ts';
import { clockOffsetSeconds } from '#core/store/upkeep/clock-offset.ts';
import { connectionStates, openPostgres, withDeadline } from '#core/platform/postgres/postgres.ts';
import { shareAnswer } from '#core/platform/process/share-answer.ts';
import { checkAtStart } from '#core/platform/process/check-at-start.ts';
import { drain, watchForEnd } from '#core/platform/process/shutdown.ts';
import { paced } from '#core/platform/telemetry/paced.ts';
import { startTelemetry, traceFields } from '#core/platform/telemetry/telemetry.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { VERSION } from '#core/platform/process/version.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { addressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { receiptKey } from '#core/domain/receipts/receipt-token.ts';
import { unsubscribeKey } from '#core/domain/recipient/unsubscribe-token.ts';
import { gaugeStore } from '#core/store/upkeep/gauges.ts';
import { workerStore } from '#core/store/worker-store.ts';
import { assertPeppers } from '#core/store/schema/assert-peppers.ts';
import { requiredSchemaVersion } from '#core/store/schema/migration-files.ts';
import { schemaReadiness } from '#core/store/schema/schema-readiness.ts';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { createProviderContexts } from '#providers/context.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { buildWorker } from './build-worker.ts';
import { workerConfig } from './config.ts';
import { connectWorker } from './connect-worker.ts';
import { createCredentials } from './accounts/credentials.ts';
import { createEvents } from './events.ts';
import { sampleDatabase } from './sample-database.ts';
import { createEndpointSecrets } from './webhooks/endpoint-secrets.ts';

/** Ports for mail submission; in the operator's own allowed ranges all ports are open. */
const SUBMISSION_PORTS = [25, 465, 587, 2525];
/** Ports for tenants' own gateways. */
const GATEWAY_PORTS = [443];

/** Secrets that were replaced a short time ago and with which vendors may still sign. */
const REPLACED_CREDENTIALS_MAX = 1_000;
/** A separate pool for webhooks, so that their queries and those for messages never wait for each other. */
const WEBHOOK_CONNECTIONS = 3;
/** A separate pool for what metrics show, so that claims and results never wait for scrapes. */
const GAUGE_CONNECTIONS = 2;
/** In milliseconds; a read that takes longer shows nothing. */
const GAUGE_TIMEOUT_MS_MAX = 5_000;

/** How long a secret stays valid after it was replaced. */
const REPLACED_STALE_MS = 15 * 60_000;

const config = workerConfig(process.env);
const log = createLogger({
  level: config.observability.logLevel,
  component: 'worker',
  context: traceFields,
  destination: createLineSink(standardOutput()),
});
using end = watchForEnd(log);
await using stack = new AsyncDisposableStack();
stack.use(await startTelemetry({ ...config.observability.telemetry, serviceName: 'despatch-worker' }));

const metrics = createWorkerMetrics({
  providers: [...PROVIDERS.values()],
  tenantsMax: config.tenantMetrics.tenantsMax,
});
collectProcessMetrics(metrics, { component: 'worker', version: VERSION });
const database = { ...config.postgres, onCertificate: metrics.certificateOf('database') };
const pool = stack.use(openPostgres({ ...database, applicationName: 'despatch-worker' }));
const { sql } = pool;
const store = timedStore(
  workerStore(sql, config.postgres.statementTimeoutMs + 1_000, addressKeyRoot(config.receipts.pepper)),
  metrics.database,
);
const webhooksPool = stack.use(
  openPostgres({ ...database, poolMax: WEBHOOK_CONNECTIONS, applicationName: 'despatch-webhooks' }),
);
const webhooks = timedStore(
  webhookStore(
    webhooksPool.sql,
    (work) => withDeadline(work, config.postgres.statementTimeoutMs + 1_000),
    createIdLoader(store.messageIdKey),
  ),
  metrics.database,
);
const gaugeTimeoutMs = Math.min(config.postgres.statementTimeoutMs, GAUGE_TIMEOUT_MS_MAX);
const gaugesPool = stack.use(
  openPostgres({
    ...database,
    poolMax: GAUGE_CONNECTIONS,
    statementTimeoutMs: gaugeTimeoutMs,
    applicationName: 'despatch-gauges',
  }),
);
const gauges = timedStore(
  gaugeStore(gaugesPool.sql, (work) => withDeadline(work, gaugeTimeoutMs + 1_000)),
  metrics.database,
);
const keyring = stack.use(
  await openKeyring(config.keyring, {
    log,
    onRequest: metrics.vaultRequest,
    onTokenExpiry: metrics.vaultTokenExpires,
    onCertificate: metrics.certificateOf('vault'),
  }),
);
const credentials = createCredentials({ decrypter: keyring, ...config.delivery.credentials });
const replacedCredentials = createCredentials({
  decrypter: keyring,
  ...config.delivery.credentials,
  entriesMax: REPLACED_CREDENTIALS_MAX,
  staleMsMax: REPLACED_STALE_MS,
});
const { publicBaseUrl, pepper } = config.receipts;
const stopping = stack.adopt(new AbortController(), (one) => one.abort());
await checkAtStart(() => assertPeppers(sql, { receipt: pepper }), stopping.signal);
const nats = stack.use(await openNats({ config: config.nats, log, name: 'despatch-worker' }));
const resolveHost = createHostResolver({ servers: config.egress.dnsServers });
const { allowCidrs } = config.egress;
const mailGuard = createEgressGuard({ allowCidrs, ports: SUBMISSION_PORTS, resolveHost });
const gatewayGuard = createEgressGuard({ allowCidrs, ports: GATEWAY_PORTS, resolveHost });
const webhookGuard = createEgressGuard({ allowCidrs, ports: config.webhooks.ports, resolveHost });
const http = stack.use(
  createHttpClient({ totalDeadlineMs: config.delivery.settings.deadlineMs, guard: gatewayGuard }),
);
const webhooksHttp = stack.use(
  createHttpClient({ totalDeadlineMs: config.webhookDeliveries.deadlineMs, guard: webhookGuard }),
);

const worker = buildWorker({
  store,
  credentials,
  replacedCredentials,
  receipts: publicBaseUrl === undefined ? undefined : { publicBaseUrl, receiptKey: receiptKey(pepper) },
  unsubscribing:
    publicBaseUrl === undefined ? undefined : { publicBaseUrl, unsubscribeKey: unsubscribeKey(pepper) },
  contextOf: createProviderContexts({ http, resolve: mailGuard.resolve, baseUrls: config.egress.baseUrls }),
  webhooks: {
    store: webhooks,
    secrets: createEndpointSecrets({ decrypter: keyring, ...config.delivery.credentials }),
    http: webhooksHttp,
    allowHttp: config.webhooks.allowHttp,
    settings: config.webhookDeliveries,
  },
  events: createEvents(
    log,
    metrics,
    epochMs,
    createAuditTrail(createLogger({ level: 'info', component: 'worker', context: traceFields })),
  ),
  settings: config.delivery.settings,
});
const consumer = connectWorker({
  worker,
  nats,
  metrics,
  log,
  inFlightMax: config.delivery.settings.inFlightMax,
});
metrics.poolConnections.from(paced(() => connectionStates(gaugesPool.sql, [pool, webhooksPool, gaugesPool])));
metrics.circuitState.from(worker.circuitStates);
metrics.inFlight.from(() => worker.inFlight());
metrics.credentialsAutonomy.from(credentials.autonomySeconds);
metrics.clockOffset.from(paced(() => clockOffsetSeconds(sql)));
sampleDatabase(metrics, gauges, webhooks);
metrics.oldestDue.from(() => worker.overdue().oldestDueSeconds);
metrics.oldestScheduled.from(() => worker.overdue().oldestScheduledSeconds);
metrics.webhooksInFlight.from(worker.webhooksInFlight);

const schema = shareAnswer(
  schemaReadiness(sql, requiredSchemaVersion(), logReadiness(log)),
  READINESS_KEPT_MS,
);
stack.use(
  await openHealthServer({
    ...config.observability.metrics,
    metrics,
    ready: async () => (end.isEnding() ? { failing: ['ending'] } : schema()),
  }),
);
log.info({ version: VERSION, worker: worker.identity }, 'Worker started');

await end.ended;
// First new work stops, then work in flight ends; the connections close last.
await drain('consumer', consumer.stop(), 2_000, log);
await drain('deliveries', worker.stop(), config.delivery.shutdownGraceMs, log);
worker.abandon();
