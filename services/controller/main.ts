import { createAuditTrail } from '#core/platform/telemetry/audit-trail.ts';
import { boundedStore } from '#core/platform/postgres/bounded-store.ts';
import { openHealthServer, READINESS_KEPT_MS } from '#core/platform/process/health.ts';
import { openKube } from './kube/kube.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { logReadiness } from '#core/platform/telemetry/log-readiness.ts';
import { collectProcessMetrics } from '#core/platform/telemetry/process-metrics.ts';
import { createControllerMetrics } from './metrics/controller-metrics.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { clockOffsetSeconds } from '#core/store/upkeep/clock-offset.ts';
import { connectionStates, openPostgres } from '#core/platform/postgres/postgres.ts';
import { shareAnswer } from '#core/platform/process/share-answer.ts';
import { watchForEnd } from '#core/platform/process/shutdown.ts';
import { paced } from '#core/platform/telemetry/paced.ts';
import { startTelemetry, traceFields } from '#core/platform/telemetry/telemetry.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import { openVaultKeys } from '#core/platform/vault/vault-keys.ts';
import { VERSION } from '#core/platform/process/version.ts';
import { managedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { requiredSchemaVersion } from '#core/store/schema/migration-files.ts';
import { schemaReadiness } from '#core/store/schema/schema-readiness.ts';
import { buildController, CONTROLLERS } from './build-controller.ts';
import { CONDITION_TYPES } from './resources/own-conditions.ts';
import { controllerConfig } from './config.ts';
import { createEventRecorder } from './runtime/event-recorder.ts';
import { createElector } from './runtime/leader.ts';
import { runManager } from './runtime/manager.ts';

/** Some statements of a purge read whole tables and may take five minutes. */
const PURGE_DEADLINE_MS = 301_000;

const config = controllerConfig(process.env);
const { cluster, reconciling, observability } = config;
const { election } = reconciling;
const log = createLogger({ level: observability.logLevel, component: 'controller', context: traceFields });
using end = watchForEnd(log);
await using stack = new AsyncDisposableStack();
stack.use(await startTelemetry({ ...observability.telemetry, serviceName: 'despatch-controller' }));

const metrics = createControllerMetrics({
  controllers: CONTROLLERS,
  conditions: CONDITION_TYPES,
  leaseName: election.leaseName,
});
collectProcessMetrics(metrics, { component: 'controller', version: VERSION });
const database = { ...config.postgres, onCertificate: metrics.certificateOf('database') };
const pool = stack.use(openPostgres({ ...database, applicationName: 'despatch-controller' }));
const { sql } = pool;
metrics.clockOffset.from(paced(() => clockOffsetSeconds(sql)));
metrics.poolConnections.from(paced(() => connectionStates(sql, [pool])));
const nats = stack.use(await openNats({ config: config.nats, log, name: 'despatch-controller' }));
nats.onConnection(metrics.natsConnection);
const keys = stack.use(
  openVaultKeys({
    config: config.keyring,
    log,
    onRequest: metrics.vaultRequest,
    onTokenExpiry: metrics.vaultTokenExpires,
    onCertificate: metrics.certificateOf('vault'),
  }),
);
const kube = stack.use(
  openKube({
    userAgent: `despatch-controller/${VERSION}`,
    kubeconfig: cluster.kubeconfig,
    onRequest: metrics.restRequest,
  }),
);

// A level of its own, independent of the log level, because audit lines are not diagnostics.
const audit = createAuditTrail(
  createLogger({ level: 'info', component: 'controller', context: traceFields }),
);
const store = boundedStore(
  managedTenantStore(sql, cluster.issuer, audit),
  config.postgres.statementTimeoutMs + 1_000,
  { purgeSome: PURGE_DEADLINE_MS, endPurge: PURGE_DEADLINE_MS },
);

const elector = election.isOn
  ? createElector({
      client: kube,
      namespace: cluster.namespace,
      name: cluster.identity,
      ...election,
      log,
      onChange: metrics.leads,
    })
  : undefined;
// Without leader election this process leads from the start.
if (elector === undefined) metrics.leads(true);
const controller = buildController({
  kube,
  store: timedStore(store, metrics.database),
  keys,
  nats,
  events: stack.use(createEventRecorder({ client: kube, log })),
  metrics,
  log,
  isLeading: elector?.isLeading ?? (() => true),
  settings: { ...cluster, concurrency: reconciling.concurrency, resyncMs: reconciling.resyncMs },
});

await runManager({
  log,
  end,
  reflectors: controller.reflectors,
  controllers: controller.loops,
  elector,
  openHealth: (checks) => openHealthServer({ ...observability.metrics, metrics, ...checks }),
  ready: shareAnswer(schemaReadiness(sql, requiredSchemaVersion(), logReadiness(log)), READINESS_KEPT_MS),
  whileLeading: controller.whileLeading,
  shutdownGraceMs: reconciling.shutdownGraceMs,
});
