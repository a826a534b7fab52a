import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KubeClient } from '../../../services/controller/kube/kube-client.ts';
import type { KubeObject, KubeResource } from '../../../services/controller/kube/kube-object.ts';
import { openKube } from '../../../services/controller/kube/kube.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { adminKubeconfig, startKubeGate } from '#test/support/kube-gate.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { startTcpProxy, type Inspector } from '#test/support/tcp-proxy.ts';
import {
  createEventRecorder,
  type EventSubject,
} from '../../../services/controller/runtime/event-recorder.ts';
import { createElector, type Elector } from '../../../services/controller/runtime/leader.ts';
import {
  createReflector,
  type Reflector,
  type ReflectorOptions,
} from '../../../services/controller/runtime/reflector.ts';

const CONFIGS: KubeResource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const NAMESPACES: KubeResource = {
  group: '',
  version: 'v1',
  plural: 'namespaces',
  kind: 'Namespace',
  namespaced: false,
};
const call = { signal: new AbortController().signal };

let server: KubeApiServer;
/** Another client that writes to the cluster. */
let admin: KubeClient;

beforeAll(async () => {
  server = await startKubeApiServer();
  admin = openKube({ kubeconfig: server.kubeconfigPath, userAgent: 'admin' });
});

afterAll(async () => {
  await admin?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const make = (namespace: string, name: string, data: object = {}) =>
  admin.create(CONFIGS, { metadata: { namespace, name }, data }, call);
const remove = (namespace: string, name: string) =>
  server.request('DELETE', `/api/v1/namespaces/${namespace}/configmaps/${name}`);
const change = (namespace: string, name: string, data: object) =>
  admin.apply(CONFIGS, { namespace, name }, { data }, { ...call, fieldManager: 'admin' });

type Watching = AsyncDisposable & {
  readonly reflector: Reflector;
  /** The notifications of subscribers in order, for example `added x`. */
  readonly told: string[];
  /** Ends of watches and relists. */
  readonly metrics: string[];
};

async function watching(
  kubeconfig: string,
  options: Partial<ReflectorOptions<KubeObject>>,
): Promise<Watching> {
  const client = openKube({ kubeconfig, userAgent: 'reflector' });
  const told: string[] = [];
  const metrics: string[] = [];
  const reflector = createReflector({
    client,
    resource: CONFIGS,
    log: silentLogger,
    metrics: {
      watchRestarted: (_kind, reason) => metrics.push(reason),
      relisted: () => metrics.push('relisted'),
      watchContact: () => undefined,
    },
    ...options,
  });
  reflector.cache.subscribe(({ type, object }) => told.push(`${type} ${object.metadata.name}`));
  const end = new AbortController();
  const done = reflector.run(end.signal);
  await reflector.cache.synced;
  return {
    reflector,
    told,
    metrics,
    async [Symbol.asyncDispose]() {
      end.abort();
      await done;
      await client[Symbol.asyncDispose]();
    },
  };
}

/** Starts a proxy in front of the server. @returns it with a kubeconfig that leads through it. */
async function proxied(inspect?: () => Inspector) {
  const proxy = await startTcpProxy(Number(new URL(server.url).port), inspect);
  return { proxy, kubeconfig: adminKubeconfig(server.access, `https://127.0.0.1:${proxy.port}`) };
}

test('a watch resumes after a lost connection: it reports missed events once, without a relist', async () => {
  const namespace = await server.createNamespace();
  const { proxy, kubeconfig } = await proxied();
  await using stack = new AsyncDisposableStack();
  stack.use(proxy);
  await using one = await watching(kubeconfig, { namespaces: [namespace] });
  await make(namespace, 'before');
  await expect.poll(() => one.told).toEqual(['added before']);
  proxy.cut();
  await make(namespace, 'meanwhile');
  await change(namespace, 'before', { a: '1' });
  await remove(namespace, 'before');
  await expect.poll(() => one.told.length).toBe(4);
  expect(one.told).toEqual(['added before', 'added meanwhile', 'updated before', 'deleted before']);
  expect(one.metrics).toEqual(['error']);
});

test('a silent watch is replaced by a new one, which reports the missed event', async () => {
  const namespace = await server.createNamespace();
  let isArmed = false;
  const { proxy, kubeconfig } = await proxied(
    () => (direction) => (direction === 'down' && isArmed ? ['event'] : []),
  );
  await using stack = new AsyncDisposableStack();
  stack.use(proxy);
  await using one = await watching(kubeconfig, { namespaces: [namespace], silenceMsMax: 2_000 });
  await make(namespace, 'first');
  await expect.poll(() => one.told).toEqual(['added first']);
  const held = proxy.hold('event');
  isArmed = true;
  await make(namespace, 'swallowed');
  await held.reached;
  isArmed = false;
  await expect.poll(() => one.told).toEqual(['added first', 'added swallowed']);
  expect(one.metrics).toEqual(['stalled']);
  held.release('cut');
});

test('an expired resource version causes a relist; a re-created object is deleted, then added', async () => {
  const namespace = await server.createNamespace();
  for (const name of ['anew', 'changed', 'gone', 'same']) await make(namespace, name);
  await using gate = await startKubeGate(server.access);
  await using one = await watching(gate.kubeconfigPath, { namespaces: [namespace] });
  const uid = one.reflector.cache.get(`${namespace}/anew`)?.metadata.uid;
  one.told.length = 0;
  gate.refuse(/watch=true/, { status: 503, reason: 'ServiceUnavailable' });
  gate.cut();
  await remove(namespace, 'gone');
  await remove(namespace, 'anew');
  await make(namespace, 'anew');
  await change(namespace, 'changed', { a: '1' });
  await make(namespace, 'new');
  // A restarted server has no events from before its restart.
  await server.restart();
  gate.open();
  await expect.poll(() => one.metrics).toContain('relisted');
  expect(one.metrics).toContain('expired');
  expect(one.told.toSorted()).toEqual(
    ['added anew', 'added new', 'deleted anew', 'deleted gone', 'updated changed'].toSorted(),
  );
  expect(one.told.indexOf('deleted anew')).toBeLessThan(one.told.indexOf('added anew'));
  expect(one.reflector.cache.get(`${namespace}/anew`)?.metadata.uid).not.toBe(uid);
  // The watch works again.
  await make(namespace, 'later');
  await expect.poll(() => one.told.at(-1)).toBe('added later');
});

test('lists and watches wait for the Retry-After of a 429 answer', async () => {
  const namespace = await server.createNamespace();
  await using gate = await startKubeGate(server.access);
  const reply = { status: 429, reason: 'TooManyRequests', retryAfterSeconds: 3 };
  gate.refuse(/configmaps\?limit/, reply, 1);
  gate.refuse(/watch=true/, reply, 1);
  await using one = await watching(gate.kubeconfigPath, { namespaces: [namespace] });
  await make(namespace, 'x');
  await expect.poll(() => one.told).toEqual(['added x']);
  const asked = (matching: RegExp) => gate.calls.filter(({ url }) => matching.test(url)).map(({ at }) => at);
  for (const [first = 0, second = 0] of [asked(/\?limit/), asked(/watch=true/)]) {
    expect(second - first).toBeGreaterThanOrEqual(3_000);
  }
});

test('a reflector with roles in two namespaces sees both and requests nothing else', async () => {
  const namespaces = [await server.createNamespace(), await server.createNamespace()];
  const elsewhere = await server.createNamespace();
  const user = server.addUser(`watcher-${randomUUID().slice(0, 8)}`);
  const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  for (const namespace of namespaces) {
    const metadata = { name: 'watcher', namespace };
    const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['list', 'watch'] }];
    await server.apply({ ...rbac, kind: 'Role', metadata, rules });
    await server.apply({
      ...rbac,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'watcher' },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user.name }],
    });
  }
  await using one = await watching(user.kubeconfigPath, { namespaces });
  for (const namespace of [...namespaces, elsewhere]) await make(namespace, `in-${namespace}`);
  const wanted = namespaces.map((namespace) => `added in-${namespace}`).toSorted();
  await expect.poll(() => one.told.toSorted()).toEqual(wanted);
  const refused = server
    .auditLog()
    .filter(
      ({ user: { username }, responseStatus }) => username === user.name && responseStatus?.code === 403,
    );
  expect(refused).toEqual([]);
});

type Candidate = {
  readonly elector: Elector;
  readonly end: AbortController;
  readonly ended: Promise<string>;
};

const LEASE = 'despatch-controller';

function candidate(client: KubeClient, namespace: string, name: string, durationMs = 3_000): Candidate {
  const elector = createElector({
    client,
    namespace,
    leaseName: LEASE,
    name,
    durationMs,
    renewDeadlineMs: 2_000,
    retryPeriodMs: 300,
    log: silentLogger,
  });
  const end = new AbortController();
  return { elector, end, ended: elector.run(end.signal) };
}

const leasePath = (namespace: string) =>
  `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${LEASE}`;

test('two candidates never lead at the same time, even when the leader loses its connection', async () => {
  const namespace = await server.createNamespace();
  const sides = await Promise.all([proxied(), proxied()]);
  await using stack = new AsyncDisposableStack();
  for (const { proxy } of sides) stack.use(proxy);
  const clients = sides.map(({ kubeconfig }) => stack.use(openKube({ kubeconfig, userAgent: 'elector' })));
  const both = clients.map((client, index) => candidate(client, namespace, `pod-${index}`));
  const leaders: number[] = [];
  const observe = () => {
    const leading = both.flatMap(({ elector }, index) => (elector.isLeading() ? [index] : []));
    expect(leading.length).toBeLessThanOrEqual(1);
    if (leading[0] !== undefined && leading[0] !== leaders.at(-1)) leaders.push(leading[0]);
    return leaders.length;
  };
  for (const wanted of [1, 2, 3]) {
    await expect.poll(observe, { interval: 10 }).toBe(wanted);
    const leader = leaders.at(-1) ?? 0;
    if (wanted === 3) break;
    // The leader's network stops without an error.
    sides[leader]?.proxy.freeze();
    let hasEnded = false;
    const ended = both[leader]?.ended.then((how) => {
      hasEnded = true;
      return how;
    });
    await expect.poll(() => observe() > wanted, { interval: 10 }).toBe(true);
    // The old leader had ended before the new one began; it did not merely lose the lead by the clock.
    expect(hasEnded).toBe(true);
    expect(await ended).toBe('lost');
    sides[leader]?.proxy.cut();
    sides[leader]?.proxy.thaw();
    both[leader] = candidate(clients[leader] as KubeClient, namespace, `pod-${leader}`);
  }
  for (const { end } of both) end.abort();
  await Promise.all(both.map(({ ended }) => ended));
});

test('a leader whose lease was stolen stops leading at its next renewal', async () => {
  const namespace = await server.createNamespace();
  const one = candidate(admin, namespace, 'pod-a');
  await one.elector.elected;
  const { body } = await server.request('GET', leasePath(namespace));
  expect(body.spec).toMatchObject({
    holderIdentity: one.elector.identity,
    leaseDurationSeconds: 3,
    renewTime: expect.stringMatching(/\.\d{6}Z$/) as string,
  });
  const merge = { contentType: 'application/merge-patch+json' };
  await server.request('PATCH', leasePath(namespace), { spec: { holderIdentity: 'thief' } }, merge);
  expect(await one.ended).toBe('lost');
  expect(one.elector.isLeading()).toBe(false);
});

test('a waiting candidate acquires a released lease at once', async () => {
  const namespace = await server.createNamespace();
  // So long that a released lease differs clearly from an expired one, on any machine.
  const leaseMs = 30_000;
  const two = candidate(admin, namespace, 'pod-b', leaseMs);
  await two.elector.elected;
  const waiting = candidate(admin, namespace, 'pod-c', leaseMs);
  two.end.abort();
  expect(await two.ended).toBe('stopped');
  await two.elector.release();
  const released = performance.now();
  await waiting.elector.elected;
  expect(performance.now() - released).toBeLessThan(leaseMs / 2);
  waiting.end.abort();
  await waiting.ended;
  await waiting.elector.release();
  expect((await server.request('GET', leasePath(namespace))).body.spec.holderIdentity).toBe('');
});

test('repeated events are stored as one with a count, and refer to their object', async () => {
  const namespace = await server.createNamespace();
  await make(namespace, 'subject');
  const subject = async (resource: KubeResource, name: string) =>
    ({
      ...(await admin.get(resource, { namespace, name }, call)),
      apiVersion: 'v1',
      kind: resource.kind,
    }) as EventSubject;
  const config = await subject(CONFIGS, 'subject');
  const cluster = await subject(NAMESPACES, namespace);
  const lines: string[] = [];
  const log = { ...silentLogger, warn: (...args: unknown[]) => void lines.push(JSON.stringify(args)) };
  {
    await using recorder = createEventRecorder({ client: admin, log, instance: 'pod-a' });
    for (let times = 0; times < 5; times += 1)
      recorder.record(config, 'Warning', 'VaultUnavailable', 'No answer');
    recorder.record(cluster, 'Normal', 'Reconciled', `About ${namespace}`);
    recorder.record(config, 'Warning', 'VaultUnavailable', 'No answer');
  }
  expect(lines).toEqual([]);
  type Event = { readonly regarding: { readonly name: string } };
  const events = async (where: string) => {
    const { body } = await server.request('GET', `/apis/events.k8s.io/v1/namespaces/${where}/events`);
    return (body.items as Event[]).filter(({ regarding }) => ['subject', namespace].includes(regarding.name));
  };
  expect(await events(namespace)).toMatchObject([
    {
      type: 'Warning',
      reason: 'VaultUnavailable',
      note: 'No answer',
      reportingController: 'despatch.dev/controller',
      reportingInstance: 'pod-a',
      regarding: { kind: 'ConfigMap', namespace, name: 'subject', uid: config.metadata.uid },
      series: { count: 6 },
    },
  ]);
  expect(await events('default')).toMatchObject([{ reason: 'Reconciled', regarding: { kind: 'Namespace' } }]);
});
