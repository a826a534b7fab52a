import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { startController } from '#test/support/controller-process.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { postgresMoments } from '#test/support/postgres-moments.ts';
import type { SharedVault } from '#test/support/servers.ts';
import { runService, type ServiceProcess } from '#test/support/service-process.ts';
import { startServiceStack, type ServiceStack } from '#test/support/service-stack.ts';
import { leftoversOf } from '#test/support/tenant-leftovers.ts';
import { startTcpProxy } from '#test/support/tcp-proxy.ts';

let stack: ServiceStack;
let kube: KubeApiServer;
let namespace: string;
let controller: ServiceProcess;
let environment: Record<string, string>;

beforeAll(async () => {
  [stack, kube] = await Promise.all([startServiceStack(), startKubeApiServer()]);
  await kube.applyCrds();
  namespace = await kube.createNamespace();
  environment = {
    ...stack.controllerEnvironment,
    KUBECONFIG: kube.kubeconfigPath,
    POD_NAMESPACE: namespace,
    WATCH_NAMESPACES: namespace,
    LEASE_DURATION_SECONDS: '4',
    LEASE_RENEW_DEADLINE_SECONDS: '3',
    LEASE_RETRY_PERIOD_SECONDS: '1',
  };
  controller = await startController('controller-1', environment);
}, 180_000);

afterAll(async () => {
  await controller?.[Symbol.asyncDispose]();
  await kube?.[Symbol.asyncDispose]();
  await stack?.[Symbol.asyncDispose]();
});

type Tenant = {
  metadata: { name: string; uid: string; generation: number; resourceVersion: string; finalizers?: string[] };
  status?: { tenantId?: string; conditions?: { type: string; status: string; reason: string }[] };
};

const MERGE = { contentType: 'application/merge-patch+json' };

const pathOf = (name: string): string =>
  `/apis/despatch.dev/v1alpha1/namespaces/${namespace}/tenants/${name}`;

async function declare(spec: object = {}, name = `t-${randomUUID().slice(0, 8)}`): Promise<string> {
  const answer = await kube.apply({
    apiVersion: 'despatch.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name, namespace },
    spec,
  });
  expect(answer).toMatchObject({ status: expect.toSatisfy((status: number) => status < 300) as number });
  return name;
}

async function read(name: string): Promise<Tenant | undefined> {
  const { status, body } = await kube.request('GET', pathOf(name));
  return status === 200 ? (body as Tenant) : undefined;
}

async function condition(name: string, type = 'Ready'): Promise<string> {
  const found = (await read(name))?.status?.conditions?.find((one) => one.type === type);
  return found === undefined ? 'absent' : `${found.status} ${found.reason}`;
}

async function untilReady(name: string): Promise<string> {
  await expect.poll(() => condition(name)).toBe('True Reconciled');
  return (await read(name))?.status?.tenantId ?? '';
}

/** Declares a tenant whose owner adds a provider account and a key. */
async function sendingTenant(
  spec: object = {},
  account: object = {},
): Promise<{ name: string; id: string; key: string; token: string }> {
  const owner = `owner-${randomUUID().slice(0, 8)}`;
  const name = await declare({ owners: [{ email: `${owner}@example.org` }], ...spec });
  const id = await untilReady(name);
  const token = await stack.mint(owner);
  const admin = (method: string, path: string, body: object) =>
    call(method, path, body, { authorization: `Bearer ${token}`, 'x-tenant-slug': name });
  const made = await admin('POST', '/v1/admin/providers', {
    ...account,
    provider: 'simulator-sms',
    label: 'simulator',
    secretConfig: {},
  });
  expect(made).toMatchObject({ status: 201 });
  const key = await admin('POST', '/v1/admin/api-keys', { name: 'test key' });
  expect(key).toMatchObject({ status: 201 });
  return { name, id, token, key: String(key.body['key']) };
}

type Answer = { status: number; body: Record<string, unknown> };

async function call(
  method: string,
  path: string,
  body: object | undefined,
  headers: object,
): Promise<Answer> {
  const response = await fetch(`${stack.apis[0].origin}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const send = (key: string, to = '+15550000001'): Promise<Answer> =>
  call('POST', '/v1/messages', { channel: 'sms', to, body: 'Hello' }, { 'x-service-key': key });

const messageStatus = async (key: string, id: unknown): Promise<unknown> =>
  (await call('GET', `/v1/messages/${String(id)}`, undefined, { 'x-service-key': key })).body['status'];

describe('a declared tenant', () => {
  // Retried, because a busy machine may be too slow for the deadline.
  test(
    'signs in its owner by e-mail, sends, and is suspended and resumed at once by its resource',
    { retry: 2 },
    async () => {
      const { name, key } = await sendingTenant();
      const first = await send(key);
      expect(first.status).toBe(202);
      await expect.poll(() => messageStatus(key, first.body['id'])).toBe('delivered');

      const suspendedAt = performance.now();
      await declare({ state: 'Suspended', suspendReason: 'billing' }, name);
      await expect.poll(async () => (await send(key)).status, { interval: 20 }).toBe(403);
      // Earlier than the five seconds after which a process rereads the tenant by itself.
      expect(performance.now() - suspendedAt).toBeLessThan(4_000);
      await expect.poll(() => condition(name, 'Suspended')).toBe('True SuspendedBySpec');

      await declare({}, name);
      await expect.poll(async () => (await send(key)).status, { interval: 20 }).toBe(202);
    },
  );

  test('rejects suspend, resume and plan changes through the API, but allows a new name', async () => {
    const { name, id, token } = await sendingTenant();
    const platform = { authorization: `Bearer ${stack.platformToken}` };
    for (const [method, path, body] of [
      ['POST', `/v1/admin/tenants/${id}/suspend`, { reason: 'manual' }],
      ['POST', `/v1/admin/tenants/${id}/resume`, {}],
      ['PATCH', `/v1/admin/tenants/${id}`, { plan: 'growth' }],
    ] as const) {
      expect(await call(method, path, body, platform)).toMatchObject({
        status: 409,
        body: { code: 'managed_by_cluster' },
      });
    }
    const owner = { authorization: `Bearer ${token}`, 'x-tenant-slug': name };
    expect(await call('PATCH', `/v1/admin/tenants/${id}`, { name: 'Mine' }, owner)).toMatchObject({
      status: 200,
      body: { name: 'Mine', managedBy: `${namespace}/${name}` },
    });
  });

  test('holds its queued messages while suspended, and delivers them when it is resumed', async () => {
    // The account's rate limit is so low that most messages still wait when the suspension takes effect.
    const { name, key, id } = await sendingTenant({}, { rateLimitPerSecond: 1 });
    const sent = await Promise.all(Array.from({ length: 24 }, () => send(key)));
    expect(sent.map(({ status }) => status)).toEqual(sent.map(() => 202));
    await declare({ state: 'Suspended' }, name);
    await expect.poll(async () => (await stack.states(id))['queued'] ?? 0).toBe(0);
    expect((await stack.states(id))['held']).toBeGreaterThan(0);
    await declare({}, name);
    await expect.poll(() => stack.states(id)).toEqual({ delivered: 24 });
  });

  test('that is deleted with Purge leaves no row and no Vault key', async () => {
    const { name, id, key } = await sendingTenant({ deletionPolicy: 'Purge' });
    await Promise.all(Array.from({ length: 20 }, () => send(key)));
    await kube.request('DELETE', pathOf(name));
    await expect.poll(() => read(name)).toBeUndefined();
    expect([await leftoversOf(stack.admin, id), await keyExists(id)]).toEqual([{}, false]);
    await expect.poll(async () => (await send(key)).status).toBe(401);
  });
});

test('the convergence metric counts each spec change once, but no label change and no deletion', async () => {
  const count = async (): Promise<number> =>
    Number(/^despatch_convergence_seconds_count (\d+)$/m.exec(await controller.metrics())?.[1]);
  const before = await count();
  const name = await declare();
  await untilReady(name);
  await expect.poll(count).toBe(before + 1);
  await declare({ displayName: 'Changed' }, name);
  await expect.poll(count).toBe(before + 2);
  // A change of labels is not a change of the spec, and a deletion never becomes Ready.
  await kube.request('PATCH', pathOf(name), { metadata: { labels: { team: 'x' } } }, MERGE);
  await kube.request('DELETE', pathOf(name));
  await expect.poll(() => read(name)).toBeUndefined();
  expect(await count()).toBe(before + 2);
});

describe('plans', () => {
  const planPath = (name: string): string => `/apis/despatch.dev/v1alpha1/plans/${name}`;

  async function declarePlan(name: string, messagesPerDay: number): Promise<void> {
    const { body } = await kube.request('GET', planPath('free'));
    await kube.apply({
      apiVersion: 'despatch.dev/v1alpha1',
      kind: 'Plan',
      metadata: { name },
      spec: { displayName: 'Own', limits: { ...body.spec.limits, messagesPerDay } },
    });
  }

  test('the built-in plans are created', async () => {
    for (const name of ['free', 'starter', 'growth', 'enterprise'])
      await expect.poll(async () => (await kube.request('GET', planPath(name))).status).toBe(200);
  });

  test('a deleted plan stays until no tenant uses it', async () => {
    const plan = `p-${randomUUID().slice(0, 8)}`;
    await declarePlan(plan, 5);
    const name = await declare({ planRef: { name: plan } });
    await untilReady(name);
    const state = async (): Promise<string> => {
      const { body } = await kube.request('GET', planPath(plan));
      const held = body.status?.conditions?.find((one: { type: string }) => one.type === 'InUse');
      return `${held?.status} ${String(body.metadata.deletionTimestamp !== undefined)}`;
    };
    await expect.poll(state).toBe('True false');
    await kube.request('DELETE', planPath(plan));
    await expect.poll(state).toBe('True true');
    await declare({ planRef: { name: 'free' } }, name);
    await expect.poll(async () => (await kube.request('GET', planPath(plan))).status).toBe(404);
  });

  test('a changed plan updates each of its tenants once', async () => {
    const plan = `p-${randomUUID().slice(0, 8)}`;
    await declarePlan(plan, 5);
    const names = await Promise.all(Array.from({ length: 5 }, () => declare({ planRef: { name: plan } })));
    const ids = await Promise.all(names.map(untilReady));
    await declarePlan(plan, 6);
    const stored = async () =>
      (
        await stack.admin<{ day: number; generation: number }[]>`
          select (limits ->> 'messagesPerDay')::integer as day, generation from tenant_limits where tenant_id = any (${ids}::uuid[])`
      ).map(({ day, generation }) => `${day} ${generation}`);
    await expect.poll(stored).toEqual(ids.map(() => '6 2'));
  });
});

test('a restarted controller reconciles an unchanged cluster without writing to it', async () => {
  const name = await declare({ owners: [{ subject: 'someone' }] });
  const id = await untilReady(name);
  const writes = () =>
    kube
      .auditLog()
      .filter(
        ({ verb, objectRef }) =>
          ['create', 'update', 'patch', 'delete'].includes(verb) && objectRef?.resource !== 'leases',
      )
      .filter(
        ({ objectRef }) => objectRef?.apiGroup === 'despatch.dev' || objectRef?.apiGroup === 'events.k8s.io',
      ).length;
  const rows = async () =>
    (await stack.admin<{ x: string }[]>`select xmin || ' ' || xmax as x from tenants where id = ${id}`)[0]?.x;
  const passes = async () =>
    /controller_runtime_reconcile_total\{controller="tenant",result="requeue_after"\} (\d+)/.exec(
      await controller.metrics(),
    )?.[1];
  /** Looks at every tenant, as after a restart. */
  const lookAnew = async () => {
    await controller.end();
    await controller.start();
    await expect.poll(async () => Number(await passes())).toBeGreaterThan(0);
    // The controller writes events and a plan's status after the pass that produced them.
    await expect
      .poll(async () => {
        const count = writes();
        await delay(3_000);
        return writes() - count;
      })
      .toBe(0);
  };
  // Writes whatever the tests before this one have left pending.
  await lookAnew();
  const version = (await read(name))?.metadata.resourceVersion;
  const before = [writes(), await rows()];
  await lookAnew();
  expect([writes(), await rows()]).toEqual(before);
  expect((await read(name))?.metadata.resourceVersion).toBe(version);
  // It does not count as a converged change either.
  expect(await controller.metrics()).toContain('despatch_convergence_seconds_count 0\n');
});

test('a resource re-created while no controller runs keeps its tenant', async () => {
  const name = await declare();
  const id = await untilReady(name);
  await controller.end();
  await kube.request('DELETE', pathOf(name));
  await kube.request('PATCH', pathOf(name), { metadata: { finalizers: null } }, MERGE);
  await expect.poll(() => read(name)).toBeUndefined();
  await declare({ displayName: 'Anew' }, name);
  await controller.start();
  expect(await untilReady(name)).toBe(id);
});

test('a change made during a controller failover is applied and counted once', async () => {
  await using second = await startController('controller-2', environment);
  const leads = async (one: ServiceProcess) =>
    /leader_election_master_status\{[^}]*\} (\d)/.exec(await one.metrics())?.[1];
  expect([await leads(controller), await leads(second)]).toEqual(['1', '0']);
  expect((await second.readiness()).status).toBe(200);
  await untilReady(await declare());
  await controller.kill();
  const name = await declare();
  await untilReady(name);
  expect(await leads(second)).toBe('1');
  // One change, measured from when the second process saw it, which was before it led. The first process counted the change
  // before.
  const convergence = async (what: string): Promise<number> =>
    Number(new RegExp(`^despatch_convergence_seconds_${what} (.+)$`, 'm').exec(await second.metrics())?.[1]);
  await expect.poll(() => convergence('count')).toBe(1);
  expect(await convergence('sum')).toBeGreaterThan(1);
  await controller.start();
  expect(await leads(controller)).toBe('0');
  expect(await second.end()).toBe('exit code 0');
  await expect.poll(() => leads(controller)).toBe('1');
});

async function keyExists(tenantId: string): Promise<boolean> {
  const { address, rootToken } = (await (await fetch(inject('vaultDesk'))).json()) as SharedVault;
  const url = `${address}/v1/${environment['VAULT_TRANSIT_MOUNT']}/keys/despatch-${tenantId}`;
  return (await fetch(url, { headers: { 'x-vault-token': rootToken } })).status === 200;
}

test.each([
  ['Retain', 'managed_tenant'],
  ['Purge', 'purge_some'],
] as const)(
  'a leader that stalls in a deletion with %s, before %s, does not touch a re-created resource',
  async (deletionPolicy, step) => {
    const team = await kube.createNamespace();
    const path = `/apis/despatch.dev/v1alpha1/namespaces/${team}/tenants/anew`;
    const put = (spec: object) =>
      kube.apply({
        apiVersion: 'despatch.dev/v1alpha1',
        kind: 'Tenant',
        metadata: { name: 'anew', namespace: team },
        spec: { slug: team, ...spec },
      });
    const get = async () => {
      const { status, body } = await kube.request('GET', path);
      return status === 200 ? (body as Tenant) : undefined;
    };
    const ready = async () =>
      (await get())?.status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? 'absent';

    const database = new URL(environment['DATABASE_URL'] ?? '');
    await using proxy = await startTcpProxy(Number(database.port), () => postgresMoments([step]));
    database.port = String(proxy.port);
    // Two leases: the stopped process has not noticed that it lost the lead.
    const watching = { ...environment, WATCH_NAMESPACES: team };
    await using stopped = await startController('stopped', {
      ...watching,
      LEASE_NAME: `stopped-${team}`,
      DATABASE_URL: database.href,
      DATABASE_STATEMENT_TIMEOUT_MS: '60000',
      RESYNC_SECONDS: '3600',
    });
    await put({ deletionPolicy });
    await expect.poll(ready).toBe('True');
    const first = await get();
    const passes = async (): Promise<number> =>
      [
        ...(await stopped.metrics()).matchAll(
          /^controller_runtime_reconcile_total\{controller="tenant".*\} (\d+)$/gm,
        ),
      ]
        .map(([, n]) => Number(n))
        .reduce((sum, n) => sum + n, 0);
    const before = await passes();
    const held = proxy.hold(`${step}.before`);
    await kube.request('DELETE', path);
    await held.reached;
    await backdatePurge(stack.admin, team);

    await using current = await startController('current', { ...watching, LEASE_NAME: `current-${team}` });
    await expect.poll(get).toBeUndefined();
    await put({});
    await expect.poll(ready).toBe('True');
    const second = await get();
    expect(second?.metadata.uid).not.toBe(first?.metadata.uid);
    const id = second?.status?.tenantId ?? '';
    // A retained tenant is adopted again; a purged tenant is replaced by a new one.
    expect(id === first?.status?.tenantId).toBe(deletionPolicy === 'Retain');

    held.release('pass');
    await expect.poll(passes).toBeGreaterThan(before);
    const stored = await stack.admin`
      select id::text, owner_uid, status from tenants where slug = ${team}`;
    expect(stored).toEqual([{ id, owner_uid: second?.metadata.uid, status: 'active' }]);
    expect(await keyExists(id)).toBe(true);
    expect(await ready()).toBe('True');
    // The stopped process wrote nothing that the current leader cannot correct.
    await put({ state: 'Suspended' });
    await expect
      .poll(async () => (await stack.admin`select status from tenants where slug = ${team}`)[0]?.['status'])
      .toBe('suspended');
    expect(await current.end()).toBe('exit code 0');
  },
  90_000,
);

test('a tenant deleted by the API is purged despite a controller crash, and frees its slug', async () => {
  const own = await stack.tenant(['sms']);
  const neighbour = await stack.tenant(['sms']);
  const path = `/v1/admin/tenants/${own.id}`;
  const platform = { authorization: `Bearer ${stack.platformToken}` };
  const status = async (): Promise<unknown> => {
    const { status: code, body } = await call('GET', path, undefined, platform);
    return code === 200 ? body['status'] : code;
  };
  for (let n = 0; n < 10; n += 1) expect((await send(own.serviceKey)).status).toBe(202);
  expect(await keyExists(own.id)).toBe(true);
  // No controller runs, so the tenant waits for one.
  expect(await controller.end()).toBe('exit code 0');
  const removed = await fetch(`${stack.apis[0].origin}${path}`, { method: 'DELETE', headers: platform });
  expect([removed.status, await removed.json()]).toMatchObject([202, { id: own.id, status: 'deleting' }]);
  await expect.poll(async () => (await send(own.serviceKey)).status, { interval: 20 }).toBe(403);

  const database = new URL(environment['DATABASE_URL'] ?? '');
  await using proxy = await startTcpProxy(Number(database.port), () => postgresMoments(['end_purge']));
  database.port = String(proxy.port);
  const held = proxy.hold('end_purge.before');
  const dying = await startController('dying', {
    ...environment,
    LEASE_NAME: 'dying',
    DATABASE_URL: database.href,
    DATABASE_STATEMENT_TIMEOUT_MS: '60000',
  });
  await held.reached;
  await dying[Symbol.asyncDispose]();
  expect([await status(), await keyExists(own.id)]).toEqual(['deleting', false]);

  await controller.start();
  await expect.poll(status).toBe(404);
  expect(await leftoversOf(stack.admin, own.id)).toEqual({});
  await expect.poll(async () => (await send(own.serviceKey)).status).toBe(401);
  const again = await call('POST', '/v1/admin/tenants', { name: 'Another', slug: own.slug }, platform);
  expect([again.status, again.body['id'] === own.id]).toEqual([201, false]);
  expect([(await send(neighbour.serviceKey)).status, await keyExists(neighbour.id)]).toEqual([202, true]);
});

test('an invalid configuration stops the controller at start, and the output names every fault', async () => {
  const { code, output } = await runService('controller', {
    LEASE_RENEW_DEADLINE_SECONDS: '20',
    WATCH_NAMESPACES: 'A_b',
  });
  expect(code).toBe(1);
  for (const variable of [
    'DATABASE_URL',
    'NATS_URL',
    'VAULT_ADDR',
    'OIDC_ISSUER',
    'LEASE_RENEW_DEADLINE_SECONDS',
    'WATCH_NAMESPACES',
  ])
    expect(output).toContain(variable);
});
