import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { openHealthServer } from '#core/platform/process/health.ts';
import { createHttpClient } from '#core/platform/http/http.ts';
import { createHostResolver } from '#core/platform/http/host-resolver.ts';
import { createLineSink } from '#core/platform/telemetry/line-sink.ts';
import { createLogger, standardOutput } from '#core/platform/telemetry/logger.ts';
import { collectProcessMetrics, createWorkerMetrics } from '#core/platform/telemetry/metrics.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openKeyring } from '#core/platform/vault/open-keyring.ts';
import { connectionStates, openPostgres } from '#core/platform/postgres/postgres.ts';
import { drain, watchForEnd } from '#core/platform/process/shutdown.ts';
import { startTelemetry, traceFields } from '#core/platform/telemetry/telemetry.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { VERSION } from '#core/platform/process/version.ts';
import { receiptKey } from '#core/domain/receipt-token.ts';
import { deliveryStore } from '#core/store/deliveries.ts';
import { requiredSchemaVersion } from '#core/store/migration-files.ts';
import { schemaReadiness } from '#core/store/schema-readiness.ts';
import { createProviderContexts } from '#providers/context.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { buildWorker } from './build-worker.ts';
import { workerConfig } from './config.ts';
import { connectWorker } from './connect-worker.ts';
import { createCredentials } from './accounts/credentials.ts';
import { createEvents } from './events.ts';

/** Ports that mail is submitted on; the operator's own ranges are open on all. */
const SUBMISSION_PORTS = [25, 465, 587, 2525];
/** Of tenants' own URLs. */
const HTTPS_PORTS = [443];

/** Secrets that were replaced a short time ago, and that vendors may still sign with. */
const REPLACED_CREDENTIALS_MAX = 1_000;

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
const { sql } = stack.use(openPostgres({ ...config.postgres, applicationName: 'despatch-worker' }));
const store = timedStore(deliveryStore(sql, config.postgres.statementTimeoutMs + 1_000), metrics.database);
const keyring = stack.use(
  await openKeyring(config.keyring, {
    log,
    onRequest: metrics.vaultRequest,
    onTokenExpiry: metrics.vaultTokenExpires,
  }),
);
const credentials = createCredentials({ decrypter: keyring, ...config.delivery.credentials });
const replacedCredentials = createCredentials({
  decrypter: keyring,
  ...config.delivery.credentials,
  entriesMax: REPLACED_CREDENTIALS_MAX,
});
const { publicBaseUrl, pepper } = config.receipts;
const nats = stack.use(await openNats({ config: config.nats, log, name: 'despatch-worker' }));
const resolveHost = createHostResolver({ servers: config.egress.dnsServers });
const { allowCidrs } = config.egress;
const mailGuard = createEgressGuard({ allowCidrs, ports: SUBMISSION_PORTS, resolveHost });
const webGuard = createEgressGuard({ allowCidrs, ports: HTTPS_PORTS, resolveHost });
const http = stack.use(
  createHttpClient({ totalDeadlineMs: config.delivery.settings.deadlineMs, guard: webGuard }),
);

const worker = buildWorker({
  store,
  credentials,
  replacedCredentials,
  receipts: publicBaseUrl === undefined ? undefined : { publicBaseUrl, receiptKey: receiptKey(pepper) },
  contextOf: createProviderContexts({ http, resolve: mailGuard.resolve, baseUrls: config.egress.baseUrls }),
  events: createEvents(log, metrics, Date.now),
  settings: config.delivery.settings,
});
const consumer = connectWorker({
  worker,
  nats,
  metrics,
  log,
  inFlightMax: config.delivery.settings.inFlightMax,
});
metrics.poolConnections.from(() => connectionStates(sql));
metrics.inFlight.from(() => worker.inFlight());
metrics.credentialsAutonomy.from(credentials.autonomySeconds);
metrics.backlog.from(store.backlogTotal);
metrics.oldestDue.from(worker.oldestDueSeconds);
metrics.oldestReceipt.from(store.oldestReceiptSeconds);

const schema = schemaReadiness(sql, requiredSchemaVersion());
stack.use(
  await openHealthServer({
    ...config.observability.metrics,
    metrics,
    ready: async () => (end.isEnding() ? { failing: ['ending'] } : schema()),
  }),
);
log.info({ version: VERSION, worker: worker.identity }, 'Worker started');

await end.ended;
// First no new work, then what is in flight; the connections close after it.
await drain('consumer', consumer.stop(), 2_000, log);
await drain('deliveries', worker.stop(), config.delivery.shutdownGraceMs, log);
worker.abandon();
