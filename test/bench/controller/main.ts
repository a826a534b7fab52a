// `npm run bench:controller`: see HELP.
import { parseArgs } from 'node:util';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPostgres } from '../../../deploy/servers/postgres.ts';
import { startVault } from '../../../deploy/servers/vault.ts';
import { freePort } from '../../../deploy/servers/ports.ts';
import { startKubeApiServer, type KubeApiServer } from '../../support/kube-apiserver.ts';
import { spawnService } from '../../support/service-process.ts';
import { controllerEnvironment, openStackServers, prepareBackends } from '../../support/stack-servers.ts';

const HELP = `npm run bench:controller [-- options]

Measures how long a controller takes from its start until every declared tenant is in force, and until it has looked at
all of them again without a change, with a real Kubernetes API server, Postgres (synced commits), NATS and Vault on this
machine. Prints the time and the controller's own CPU time per tenant for each size.

  --sizes A,B     numbers of tenants, rising; each is measured on top of the one before (1000,10000)
  --concurrency N tenants reconciled at once (4)
  --json          prints the result as JSON
  --help          this text
`;

type Pass = { readonly tenants: number; readonly seconds: number; readonly cpuSeconds: number };
type Figures = { readonly size: number; readonly cold: Pass; readonly again: Pass };

const DECLARED_AT_ONCE = 16;

const log = (line: string): void => void process.stderr.write(`${line}\n`);
const { values } = parseArgs({
  options: {
    sizes: { type: 'string', default: '1000,10000' },
    concurrency: { type: 'string', default: '4' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) process.stdout.write(HELP);
else await run(values.sizes.split(',').map(Number), values.concurrency);

async function run(sizes: readonly number[], concurrency: string): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-bench-controller-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  log('starting Kubernetes API server, Postgres, NATS and Vault');
  const postgres = stack.use(await startPostgres({ durable: true }));
  const vault = stack.use(await startVault());
  const kube = stack.use(await startKubeApiServer());
  const servers = await openStackServers(() => prepareBackends(postgres, vault), folder, stack);
  await kube.applyCrds();
  const namespace = await kube.createNamespace();
  const environment = {
    ...controllerEnvironment(servers),
    KUBECONFIG: kube.kubeconfigPath,
    POD_NAMESPACE: namespace,
    RECONCILE_CONCURRENCY: concurrency,
    LOG_LEVEL: 'warn',
    // A resync during a measurement would count objects twice.
    RESYNC_SECONDS: '86400',
  };

  const figures: Figures[] = [];
  let declared = 0;
  for (const size of sizes) {
    log(`declaring ${size - declared} tenants`);
    await declare(kube, namespace, declared, size);
    const fresh = size - declared;
    declared = size;
    log(`${size} tenants: from the start until all are ready`);
    const cold = await measure(environment, folder, fresh, (metrics) => readyTenants(metrics) === size);
    log(`${size} tenants: once more, without a change`);
    const again = await measure(environment, folder, size, (metrics) => passes(metrics) >= size);
    figures.push({ size, cold, again });
  }
  process.stdout.write(values.json ? `${JSON.stringify(figures, null, 2)}\n` : layout(figures));
}

async function declare(kube: KubeApiServer, namespace: string, from: number, to: number): Promise<void> {
  let next = from;
  const work = async (): Promise<void> => {
    while (next < to) {
      const name = `tenant-${String(next++).padStart(6, '0')}`;
      const { status } = await kube.request(
        'POST',
        `/apis/despatch.dev/v1alpha1/namespaces/${namespace}/tenants`,
        {
          apiVersion: 'despatch.dev/v1alpha1',
          kind: 'Tenant',
          metadata: { name },
          spec: { planRef: { name: 'growth' }, owners: [{ email: `${name}@example.org` }] },
        },
      );
      if (status !== 201) throw new Error(`the API server answered ${status} to ${name}`);
    }
  };
  await Promise.all(Array.from({ length: DECLARED_AT_ONCE }, work));
}

/** Runs a controller until its metrics show that all objects are reconciled. */
async function measure(
  environment: Record<string, string>,
  folder: string,
  tenants: number,
  isDone: (metrics: string) => boolean,
): Promise<Pass> {
  const port = await freePort();
  const startedAt = performance.now();
  const child = await spawnService({
    kind: 'controller',
    logFile: join(folder, 'controller.log'),
    environment: { ...environment, METRICS_PORT: String(port) },
  });
  try {
    for (;;) {
      const ended = child.endedWith();
      if (ended !== undefined)
        throw new Error(
          `the controller ended: ${ended}\n${await readFile(join(folder, 'controller.log'), 'utf8')}`,
        );
      const metrics = await fetch(`http://127.0.0.1:${port}/metrics`).then(
        (answer) => answer.text(),
        () => '',
      );
      const seconds = (performance.now() - startedAt) / 1_000;
      if (isDone(metrics))
        return { tenants, seconds, cpuSeconds: valueOf(metrics, /^process_cpu_seconds_total (\S+)/m) };
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  } finally {
    await child.stop('SIGTERM', 40_000);
  }
}

function readyTenants(metrics: string): number {
  return valueOf(metrics, /^despatch_resource_condition\{kind="Tenant",type="Ready",status="True"\} (\S+)/m);
}

function passes(metrics: string): number {
  return valueOf(
    metrics,
    /^controller_runtime_reconcile_total\{controller="tenant",result="requeue_after"\} (\S+)/m,
  );
}

function valueOf(metrics: string, pattern: RegExp): number {
  return Number(pattern.exec(metrics)?.[1] ?? 0);
}

function layout(figures: readonly Figures[]): string {
  const perTenant = ({ seconds, tenants }: Pass): string => ((seconds * 1_000) / tenants).toFixed(2);
  const cpu = ({ cpuSeconds, tenants }: Pass): string => ((cpuSeconds * 1_000) / tenants).toFixed(2);
  const row = (what: string, size: number, pass: Pass): string =>
    `${what.padEnd(34)} ${String(size).padStart(8)} ${pass.seconds.toFixed(1).padStart(9)} ${perTenant(pass).padStart(14)} ${cpu(pass).padStart(18)}`;
  const [first, last] = [figures.at(0), figures.at(-1)];
  const growth =
    first === undefined || last === undefined || first === last
      ? []
      : [
          `cost per tenant at ${last.size} to that at ${first.size}: ${(Number(perTenant(last.cold)) / Number(perTenant(first.cold))).toFixed(2)}x from nothing, ` +
            `${(Number(perTenant(last.again)) / Number(perTenant(first.again))).toFixed(2)}x without a change`,
        ];
  return [
    `${''.padEnd(34)} ${'tenants'.padStart(8)} ${'seconds'.padStart(9)} ${'ms per tenant'.padStart(14)} ${'CPU ms per tenant'.padStart(18)}`,
    ...figures.flatMap(({ size, cold, again }) => [
      row('from the start until all are ready', size, cold),
      row('once more, without a change', size, again),
    ]),
    ...growth,
    '',
  ].join('\n');
}
