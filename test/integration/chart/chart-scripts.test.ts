import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { environmentOf, pick, renderChart, type ChartObject } from '#test/support/chart.ts';
import { call } from '#test/support/http-call.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import type { KubeObject } from '#test/support/kube-connection.ts';
import { startServiceStack, type ServiceStack } from '#test/support/service-stack.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'despatch-chart-scripts-'));
});
afterAll(() => rm(folder, { recursive: true }));

type Run = { readonly code: number; readonly output: string };

/** Runs the container of a Job as rendered, with these variables replaced. */
function runJob(job: ChartObject, variables: Readonly<Record<string, string>>): Promise<Run> {
  const [container] = job.spec.template.spec.containers;
  const args = [...container.command.slice(1), ...container.args];
  const env = { PATH: process.env['PATH'], ...environmentOf(container), ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : 1, output: stdout + stderr }),
    );
  });
}

describe('helm test', () => {
  test('checks every component, the api through its Service, and a canary only if configured', async () => {
    const variables = async (values: string) =>
      environmentOf(
        pick(await renderChart({ values }), 'Job', 'despatch-test').spec.template.spec.containers[0],
      );
    expect(await variables('minimal')).toEqual({
      HEALTH_HOSTS: ['api', 'worker', 'controller']
        .map((name) => `despatch-${name}-metrics.despatch.svc`)
        .join(','),
      API_URL: 'http://despatch-api.despatch.svc:80',
      TIMEOUT_SECONDS: '120',
    });
    expect(await variables('single-pods')).toMatchObject({
      CANARY_KEY_FILE: '/etc/despatch/service-key',
      CANARY_CHANNEL: 'sms',
      CANARY_TO: '+15550000001',
    });
  });

  test('succeeds when the services are ready and a canary message is delivered', async () => {
    await using stack = await startServiceStack();
    const keyFile = join(folder, 'service-key');
    await writeFile(keyFile, `${await testKey(stack)}\n`);
    const job = pick(await renderChart({ values: 'single-pods' }), 'Job', 'despatch-test');
    const { origin, metricsOrigin } = stack.apis[0];
    const { code, output } = await runJob(job, {
      HEALTH_HOSTS: '127.0.0.1',
      HEALTH_PORT: new URL(metricsOrigin).port,
      API_URL: origin,
      CANARY_KEY_FILE: keyFile,
      TIMEOUT_SECONDS: '30',
    });
    expect({ code, lines: output.trim().split('\n') }).toEqual({
      code: 0,
      lines: [
        'passed  every pod of 127.0.0.1 is ready',
        'passed  the api answers through its Service',
        'passed  a message is accepted',
        'passed  the message is delivered',
      ],
    });
  });

  test('fails with the cause if a pod lacks its schema or the API URL leads to another server', async () => {
    await using server = await answering((path) =>
      path === '/readyz' ? [503, { status: 'not_ready', failing: ['schema'] }] : [200, {}],
    );
    const job = pick(await renderChart(), 'Job', 'despatch-test');
    const where = {
      HEALTH_PORT: server.port,
      TIMEOUT_SECONDS: '1',
      API_URL: `http://127.0.0.1:${server.port}`,
    };
    const notReady = await runJob(job, { ...where, HEALTH_HOSTS: '127.0.0.1' });
    expect(notReady).toEqual({ code: 1, output: expect.stringContaining('"failing":["schema"]') });
    const another = await runJob(job, { ...where, HEALTH_HOSTS: '' });
    expect(another).toEqual({ code: 1, output: expect.stringContaining('something else than OpenAPI') });
  });

  async function testKey(stack: ServiceStack): Promise<string> {
    const { slug, token } = await stack.tenant();
    const { status, body } = await call(stack.apis[0].origin, 'POST', '/v1/admin/api-keys', {
      token,
      slug,
      body: { name: 'helm test', mode: 'test' },
    });
    expect(status).toBe(201);
    return body.key as string;
  }
});

describe('releasing finalizers before an uninstallation', () => {
  const TENANTS = '/apis/despatch.dev/v1alpha1';
  const OURS = 'tenant.despatch.dev/finalizer';
  let kube: KubeApiServer;

  beforeAll(async () => {
    kube = await startKubeApiServer();
    await kube.applyCrds();
    for (const name of ['despatch', 'team-a', 'team-b']) {
      await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    }
  });
  afterAll(() => kube[Symbol.asyncDispose]());

  /** Runs the Job with exactly the rights that the chart grants it. */
  async function release(
    objects: readonly ChartObject[],
    variables: Readonly<Record<string, string>> = { GRACE_SECONDS: '1' },
  ): Promise<Run> {
    for (const object of objects.filter(isNeeded)) {
      const { status, body } = await kube.apply(object);
      expect([status < 300, body.message]).toEqual([true, undefined]);
    }
    const job = pick(objects, 'Job', 'despatch-release-finalizers');
    const account = job.spec.template.spec.serviceAccountName as string;
    const { body } = await kube.request(
      'POST',
      `/api/v1/namespaces/despatch/serviceaccounts/${account}/token`,
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 600 },
      },
    );
    const tokenFile = join(folder, 'token');
    await writeFile(tokenFile, body.status.token as string);
    const run = runJob(job, {
      API_SERVER: kube.url,
      TOKEN_FILE: tokenFile,
      NODE_EXTRA_CA_CERTS: join(kube.access.tlsDir, 'ca.pem'),
      ...variables,
    });
    await endOfController();
    return run;
  }

  /** Does the work of the Deployment controller, which this cluster lacks, for a Deployment scaled to zero. */
  async function endOfController(): Promise<void> {
    const path = '/apis/apps/v1/namespaces/despatch/deployments/despatch-controller';
    await expect.poll(async () => (await kube.request('GET', path)).body.spec.replicas).toBe(0);
    const { generation } = (await kube.request('GET', path)).body.metadata;
    const status = { status: { observedGeneration: generation, replicas: 0 } };
    await kube.request('PATCH', `${path}/status`, status, { contentType: 'application/merge-patch+json' });
  }

  const finalizersOf = async (path: string) =>
    (await kube.request('GET', `${TENANTS}/${path}`)).body.metadata.finalizers;
  const make = async (kind: string, name: string, namespace: string | undefined, finalizers: string[]) => {
    const limits = (
      await renderChart({ values: 'all-options', apiVersions: ['despatch.dev/v1alpha1/Plan'] })
    ).find((object) => object.kind === 'Plan')?.spec.limits;
    const spec = kind === 'Plan' ? { displayName: 'A plan', limits } : {};
    const metadata = { name, finalizers, ...(namespace === undefined ? {} : { namespace }) };
    const object: KubeObject = { apiVersion: 'despatch.dev/v1alpha1', kind, metadata, spec };
    const { status, body } = await kube.apply(object);
    expect([status < 300, body.message]).toEqual([true, undefined]);
  };

  test('removes its own finalizers from the watched resources, and leaves all others', async () => {
    await make('Tenant', 'one', 'team-a', [OURS, 'example.com/other']);
    await make('Tenant', 'two', 'team-b', [OURS]);
    await make('Plan', 'shared', undefined, [
      'plan.despatch.dev/despatch.despatch',
      'plan.despatch.dev/other.despatch',
    ]);
    const set = { 'controller.watchNamespaces': ['team-a'] };
    const { code, output } = await release(await renderChart({ values: 'single-pods', set }));
    expect({ code, output }).toEqual({ code: 0, output: 'Released 2 resources\n' });
    expect(await finalizersOf('namespaces/team-a/tenants/one')).toEqual(['example.com/other']);
    expect(await finalizersOf('namespaces/team-b/tenants/two')).toEqual([OURS]);
    expect(await finalizersOf('plans/shared')).toEqual(['plan.despatch.dev/other.despatch']);
  });

  test('removes them in every namespace if the controller watched all', async () => {
    await make('Tenant', 'two', 'team-b', [OURS]);
    const { code } = await release(await renderChart({ values: 'single-pods' }));
    expect(code).toBe(0);
    expect(await finalizersOf('namespaces/team-b/tenants/two')).toBeUndefined();
  });

  describe('waits for the leader, which may write as long as it holds the lease:', () => {
    const rendered = () => renderChart({ set: { 'uninstall.releaseFinalizers': true } });
    const hold = (holderIdentity: string, leaseDurationSeconds: number) =>
      kube.apply({
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name: 'despatch-controller', namespace: 'despatch' },
        spec: {
          holderIdentity,
          leaseDurationSeconds,
          renewTime: new Date().toISOString().replace('Z', '000Z'),
        },
      });
    const released = () => finalizersOf('namespaces/team-b/tenants/two');

    test('until the lease is released', async () => {
      await make('Tenant', 'two', 'team-b', [OURS]);
      await hold('despatch-controller-0', 60);
      const run = release(await rendered(), { LEASE_FREE_SECONDS: '1' });
      for (let n = 0; n < 6; n += 1) {
        await delay(500);
        await hold('despatch-controller-0', 60);
        expect(await released()).toEqual([OURS]);
      }
      await hold('', 1);
      expect(await run).toMatchObject({ code: 0 });
      expect(await released()).toBeUndefined();
    });

    test('until the lease expires', async () => {
      await make('Tenant', 'two', 'team-b', [OURS]);
      await hold('despatch-controller-0', 3);
      const before = performance.now();
      expect(await release(await rendered(), { LEASE_FREE_SECONDS: '1' })).toMatchObject({ code: 0 });
      expect(performance.now() - before).toBeGreaterThan(3_000);
      expect(await released()).toBeUndefined();
    });
  });

  test('waits for the grace period of the pod if leader election is off', async () => {
    const job = pick(await renderChart({ values: 'single-pods' }), 'Job', 'despatch-release-finalizers');
    expect(environmentOf(job.spec.template.spec.containers[0])).toMatchObject({
      LEASE: '',
      GRACE_SECONDS: '45',
    });
  });

  test.each([
    [true, 900 + 45 + 600],
    [false, 900 + 45 + 45],
  ])('has time for what it waits for, with leader election: %s', async (enabled, seconds) => {
    const set = {
      'uninstall.releaseFinalizers': true,
      'controller.replicas': 1,
      'controller.leaderElection.enabled': enabled,
      'controller.leaderElection.leaseDurationSeconds': 600,
    };
    const job = pick(await renderChart({ set }), 'Job', 'despatch-release-finalizers');
    expect(job.spec.activeDeadlineSeconds).toBe(seconds);
  });

  function isNeeded({ kind, metadata }: ChartObject): boolean {
    const isItsOwn = metadata.name.endsWith('release-finalizers') && kind !== 'Job';
    return isItsOwn || (kind === 'Deployment' && metadata.name === 'despatch-controller');
  }
});

type Answer = readonly [status: number, body: unknown];

async function answering(
  answer: (path: string) => Answer,
): Promise<AsyncDisposable & { readonly port: string }> {
  const server = createServer((request, response) => {
    const [status, body] = answer(request.url ?? '');
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: String((server.address() as AddressInfo).port),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
