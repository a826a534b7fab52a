import { openHealthServer } from '#core/platform/process/health.ts';
import type { KubeObject, KubeResource } from '../../services/controller/kube/kube-object.ts';
import { parseKey } from '../../services/controller/kube/kube-object.ts';
import { openKube } from '../../services/controller/kube/kube.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { createControllerMetrics } from '../../services/controller/metrics/controller-metrics.ts';
import { pause } from '#core/platform/process/pause.ts';
import { watchForEnd } from '#core/platform/process/shutdown.ts';
import { createControllerLoop } from '../../services/controller/runtime/controller-loop.ts';
import { fenceWrites } from '../../services/controller/runtime/fence-writes.ts';
import { createElector } from '../../services/controller/runtime/leader.ts';
import { runManager } from '../../services/controller/runtime/manager.ts';
import { createReflector } from '../../services/controller/runtime/reflector.ts';

/*
 * A minimal controller for tests of the runtime as a process: for each ConfigMap it writes `begun`, waits until a test writes
 * `go`, and writes `ended`, each with its own name.
 */

const CONFIGS: KubeResource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
type Config = KubeObject & { readonly data?: Readonly<Record<string, string>> };

const { KUBECONFIG: kubeconfig, NAMESPACE: namespace = '', NAME: name = '', PORT: port = '0' } = process.env;
const { LEASE_MS: leaseMs = '3000' } = process.env;
const log = createLogger({ level: 'debug', component: 'runtime' });
using end = watchForEnd(log);
await using client = openKube({ kubeconfig, userAgent: name });
const metrics = createControllerMetrics({
  controllers: ['config'],
  conditions: { ConfigMap: [] },
  leaseName: 'runtime',
});
const elector = createElector({
  client,
  namespace,
  leaseName: 'runtime',
  name,
  durationMs: Number(leaseMs),
  renewDeadlineMs: 2_000,
  retryPeriodMs: 300,
  log,
  onChange: metrics.leads,
});
const kube = fenceWrites(client, elector.isLeading);
const reflector = createReflector<Config>({
  client: kube,
  resource: CONFIGS,
  namespaces: [namespace],
  log,
  metrics,
});
const loop = createControllerLoop({
  name: 'config',
  keys: () => reflector.cache.keys(),
  log,
  workers: 4,
  timeoutMs: 60_000,
  isLeading: elector.isLeading,
  metrics: metrics.reconciles,
  queueMetrics: metrics.workqueue('config'),
  async reconcile(key, signal) {
    if (reflector.cache.get(key) === undefined) return {};
    const ref = parseKey(key);
    // The cache may be stale, so it must not decide about work that must not be done twice.
    const config = await kube.get<Config>(CONFIGS, ref, { signal });
    if (config === undefined || config.data?.['ended'] !== undefined) return {};
    const write = (data: object) =>
      kube.apply(CONFIGS, ref, { data }, { signal, fieldManager: 'runtime', attemptMs: 1_000 });
    await write({ begun: name });
    while ((await kube.get<Config>(CONFIGS, ref, { signal }))?.data?.['go'] === undefined)
      await pause(50, signal);
    await write({ begun: name, ended: name });
    return {};
  },
});
reflector.cache.subscribe(({ key }) => loop.enqueue(key));

await runManager({
  log,
  end,
  reflectors: [reflector],
  controllers: [loop],
  elector,
  openHealth: (checks) => openHealthServer({ host: '127.0.0.1', port: Number(port), metrics, ...checks }),
  shutdownGraceMs: 25_000,
});
