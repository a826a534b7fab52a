import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres, type Sql } from '#core/platform/postgres/postgres.ts';
import { startController } from '#test/support/controller-process.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { testNats } from '#test/support/servers.ts';
import type { ServiceProcess } from '#test/support/service-process.ts';
import { openVaultLogins } from '#test/support/shared-vault.ts';
import { startTcpProxy } from '#test/support/tcp-proxy.ts';
import { newPasswords } from '../../../deploy/quickstart/state.ts';
import { loginUrl } from '../../../deploy/servers/login-url.ts';
import { startPostgres, type PostgresServer } from '../../../deploy/servers/postgres.ts';
import { migrate } from '../../../services/migrate/migrate.ts';

const STATEMENT_MS = 1_000;
const RESYNC_SECONDS = 5;
/** Three passes of one statement each, and an allowance for a busy machine. */
const SAID_MS = 20_000;

const resources = new AsyncDisposableStack();
let kube: KubeApiServer;
let postgres: PostgresServer;
let admin: Sql;
let environment: Record<string, string>;

beforeAll(async () => {
  [kube, postgres] = await Promise.all([startKubeApiServer(), startPostgres({ durable: false })]);
  resources.use(kube);
  resources.use(postgres);
  const databaseUrl = postgres.superuserUrl();
  const passwords = newPasswords();
  const [{ variables }] = await Promise.all([
    openVaultLogins(resources),
    migrate({ databaseUrl, passwords }),
    kube.applyCrds(),
  ]);
  admin = resources.use(
    openPostgres({
      url: secret(databaseUrl),
      poolMax: 1,
      statementTimeoutMs: 10_000,
      applicationName: 'test',
    }),
  ).sql;
  const { url, prefix } = testNats();
  environment = {
    DESPATCH_ENV: 'development',
    KUBECONFIG: kube.kubeconfigPath,
    DATABASE_URL: loginUrl(databaseUrl, 'despatch_controller', passwords.controller),
    DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_MS),
    NATS_URL: url,
    NATS_PREFIX: prefix.replace('_', '-'),
    OIDC_ISSUER: 'https://login.example.org',
    METRICS_HOST: '127.0.0.1',
    RESYNC_SECONDS: String(RESYNC_SECONDS),
    ...variables.controller,
  };
}, 180_000);

afterAll(() => resources.disposeAsync());

type Tenant = {
  readonly metadata: { readonly resourceVersion: string; readonly generation: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly tenantId?: string;
    readonly effectiveLimits?: { readonly messagesPerDay?: number };
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly observedGeneration: number;
    }[];
  };
};

/** Creates a namespace for the tenants of one test. */
async function setup() {
  const namespace = await kube.createNamespace();
  const pathOf = (name: string): string =>
    `/apis/despatch.dev/v1alpha1/namespaces/${namespace}/tenants/${name}`;
  const read = async (name: string): Promise<Tenant | undefined> => {
    const { status, body } = await kube.request('GET', pathOf(name));
    return status === 200 ? (body as Tenant) : undefined;
  };
  const condition = async (name: string, type = 'Ready'): Promise<string> => {
    const found = (await read(name))?.status?.conditions?.find((one) => one.type === type);
    return found === undefined ? 'absent' : `${found.status} ${found.reason} ${found.observedGeneration}`;
  };
  return {
    namespace,
    read,
    condition,
    async declare(name: string, spec: object = {}): Promise<void> {
      const { status } = await kube.apply({
        apiVersion: 'despatch.dev/v1alpha1',
        kind: 'Tenant',
        metadata: { name, namespace },
        spec,
      });
      expect(status).toBeLessThan(300);
    },
    remove: (name: string) => kube.request('DELETE', pathOf(name)),
    async expectReady(names: readonly string[]): Promise<void> {
      const reasons = async (): Promise<string[]> =>
        Promise.all(
          names.map(async (name) => {
            const { metadata, status } = (await read(name)) ?? {};
            const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
            return metadata?.generation === status?.observedGeneration ? `${ready}` : 'behind';
          }),
        );
      await expect.poll(reasons).toEqual(names.map(() => 'Reconciled'));
    },
    versions: (names: readonly string[]): Promise<(string | undefined)[]> =>
      Promise.all(names.map(async (name) => (await read(name))?.metadata.resourceVersion)),
    startController: (overrides: Record<string, string> = {}) =>
      startController(`controller-${namespace}`, {
        ...environment,
        POD_NAMESPACE: namespace,
        WATCH_NAMESPACES: namespace,
        ...overrides,
      }),
  };
}

async function declarePlan(name: string, messagesPerDay: number): Promise<void> {
  const { body } = await kube.request('GET', '/apis/despatch.dev/v1alpha1/plans/free');
  const { status } = await kube.apply({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Plan',
    metadata: { name },
    spec: { displayName: 'Own', limits: { ...body.spec.limits, messagesPerDay } },
  });
  expect(status).toBeLessThan(300);
}

async function metric(controller: ServiceProcess, series: string): Promise<number> {
  const line = (await controller.metrics()).split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1));
}

async function statusOf(controller: ServiceProcess, path: string): Promise<number> {
  return (await fetch(controller.metricsOrigin + path, { signal: AbortSignal.timeout(5_000) })).status;
}

const LOOKS = 'controller_runtime_reconcile_total{controller="tenant",result="requeue_after"}';
const CHANGES = 'despatch_convergence_seconds_count';

test('a Postgres crash makes only changed Tenants not Ready, and all recover by themselves', async () => {
  const { namespace, declare, remove, read, condition, expectReady, versions, ...s } = await setup();
  await using controller = await s.startController();
  const plan = `p-${randomUUID().slice(0, 8)}`;
  await expect
    .poll(async () => (await kube.request('GET', '/apis/despatch.dev/v1alpha1/plans/free')).status)
    .toBe(200);
  await declarePlan(plan, 10);
  const idle = ['idle-1', 'idle-2', 'idle-3'].map((name) => `${namespace}-${name}`);
  const [changed, planned, deleted, fresh] = ['changed', 'planned', 'deleted', 'fresh'].map(
    (name) => `${namespace}-${name}`,
  ) as [string, string, string, string];
  for (const name of [...idle, deleted]) await declare(name);
  await declare(changed, { limits: { messagesPerDay: 10 } });
  await declare(planned, { planRef: { name: plan } });
  await expectReady([...idle, changed, planned, deleted]);
  await expect.poll(() => metric(controller, CHANGES)).toBe(6);
  const [before, idleVersions] = [await read(changed), await versions(idle)];

  await postgres.stop('immediate');
  const looks = await metric(controller, LOOKS);
  await Promise.all([
    declare(changed, { limits: { messagesPerDay: 20 }, state: 'Suspended' }),
    declarePlan(plan, 20),
    declare(fresh),
    remove(deleted),
  ]);
  for (const [name, of] of [
    [changed, 2],
    [planned, 1],
    [fresh, 1],
    [deleted, 2],
  ] as const)
    await expect.poll(() => condition(name)).toBe(`False DatabaseUnavailable ${of}`);
  // The status keeps the last known values and the generation to which they belong.
  expect((await read(changed))?.status).toMatchObject({
    observedGeneration: 2,
    tenantId: before?.status?.tenantId,
    effectiveLimits: { messagesPerDay: 10 },
  });
  expect(await condition(changed, 'Applied')).toBe('False DatabaseUnavailable 2');
  expect(await condition(changed, 'KeyProvisioned')).toBe('True KeyReady 1');
  expect(await condition(changed, 'Suspended')).toBe('False Active 1');

  // The resync looks at all unchanged tenants; it learns nothing and writes nothing.
  await expect
    .poll(() => metric(controller, LOOKS), { interval: 100 })
    .toBeGreaterThanOrEqual(looks + idle.length);
  expect(await versions(idle)).toEqual(idleVersions);
  expect(await controller.readiness()).toEqual({ status: 503, failing: ['database'] });
  expect(await statusOf(controller, '/healthz')).toBe(200);
  expect(await metric(controller, CHANGES)).toBe(6);
  expect(await metric(controller, 'despatch_convergence_wait_seconds')).toBeGreaterThan(RESYNC_SECONDS - 1);

  await postgres.restart();
  await expectReady([...idle, changed, planned, fresh]);
  await expect.poll(() => read(deleted)).toBeUndefined();
  expect(await condition(changed, 'Suspended')).toBe('True SuspendedBySpec 2');
  const limits = await admin`
    select t.slug, t.status, (l.limits ->> 'messagesPerDay')::integer as day
    from tenants t join tenant_limits l on l.tenant_id = t.id where t.slug = any (${[changed, planned]}) order by 1`;
  expect(limits).toEqual([
    { slug: changed, status: 'suspended', day: 20 },
    { slug: planned, status: 'active', day: 20 },
  ]);
  await expect.poll(async () => (await controller.readiness()).status).toBe(200);
  expect(await versions(idle)).toEqual(idleVersions);
  // The metric counts one change for each of the three that waited, with its whole wait; the deleted tenant does not count.
  await expect.poll(() => metric(controller, CHANGES)).toBe(9);
  expect(await metric(controller, 'despatch_convergence_seconds_sum')).toBeGreaterThan(3 * RESYNC_SECONDS);
  await expect.poll(() => metric(controller, 'despatch_convergence_wait_seconds')).toBe(0);
  expect(await controller.end()).toBe('exit code 0');
});

test('a Postgres that stops answering blocks no pass and no scrape beyond the timeouts', async () => {
  const { namespace, declare, condition, expectReady, ...s } = await setup();
  await using proxy = await startTcpProxy(postgres.port);
  const through = new URL(environment['DATABASE_URL'] ?? '');
  through.port = String(proxy.port);
  await using controller = await s.startController({ DATABASE_URL: through.href });
  const names = Array.from({ length: 8 }, (_, i) => `${namespace}-${i}`);
  for (const name of names) await declare(name);
  await expectReady(names);

  proxy.freeze();
  // More tenants than controller workers: the last tenant waits for two others.
  for (const name of names) await declare(name, { limits: { messagesPerDay: 20 } });
  const reasons = () => Promise.all(names.map((name) => condition(name)));
  await expect
    .poll(reasons, { timeout: SAID_MS, interval: 100 })
    .toEqual(names.map(() => 'False DatabaseUnavailable 2'));
  const askedAt = performance.now();
  expect(await metric(controller, 'despatch_db_errors_total{op="find"}')).toBeGreaterThanOrEqual(
    names.length,
  );
  // The usual scrape timeout.
  expect(performance.now() - askedAt).toBeLessThan(10_000);
  expect(await statusOf(controller, '/healthz')).toBe(200);
  expect(await controller.readiness()).toEqual({ status: 503, failing: ['database'] });

  proxy.thaw();
  await expectReady(names);
});
