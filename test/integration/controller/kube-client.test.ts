import { randomUUID } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { KubeClient } from '../../../services/controller/kube/kube-client.ts';
import { KubeError } from '../../../services/controller/kube/kube-error.ts';
import type {
  KubeObject,
  KubeResource,
  KubeWatchEvent,
} from '../../../services/controller/kube/kube-object.ts';
import { openKube } from '../../../services/controller/kube/kube.ts';
import { adminKubeconfig } from '#test/support/kube-gate.ts';
import { startKubeApiServer, type KubeApiServer } from '#test/support/kube-apiserver.ts';
import { startTcpProxy } from '#test/support/tcp-proxy.ts';

const CONFIGS: KubeResource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const TENANTS: KubeResource = {
  group: 'despatch.dev',
  version: 'v1alpha1',
  plural: 'tenants',
  kind: 'Tenant',
  namespaced: true,
};
const call = { signal: new AbortController().signal };
const applied = { ...call, fieldManager: 'despatch-controller' };

let server: KubeApiServer;
let kube: KubeClient;
let namespace: string;

beforeAll(async () => {
  server = await startKubeApiServer();
  await server.applyCrds();
  kube = openKube({ kubeconfig: server.kubeconfigPath, userAgent: 'test' });
  namespace = await server.createNamespace();
});

afterAll(async () => {
  await kube?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

type Config = KubeObject & { readonly data?: Readonly<Record<string, string>> };

const makeConfig = (name = `c-${randomUUID().slice(0, 8)}`, data: object = {}): Promise<Config> =>
  kube.create<Config>(CONFIGS, { metadata: { namespace, name }, data }, call);
const makeTenant = (name = `t-${randomUUID().slice(0, 8)}`): Promise<KubeObject> =>
  kube.create(TENANTS, { metadata: { namespace, name }, spec: {} }, call);

const removeConfig = ({ metadata }: Config) =>
  server.request('DELETE', `/api/v1/namespaces/${namespace}/configmaps/${metadata.name}`);

async function failure(promise: Promise<unknown>): Promise<KubeError> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof KubeError) return error;
  throw new Error(`the call ended with ${String(error)}`);
}

test('an object is created, read, and replaced at its version', async () => {
  const made = await makeConfig(undefined, { a: '1' });
  const { metadata } = made;
  expect((await failure(makeConfig(metadata.name))).reason).toBe('AlreadyExists');
  const replaced = await kube.replace<Config>(CONFIGS, { ...made, data: { a: '2' } }, call);
  expect((await failure(kube.replace(CONFIGS, made, call))).code).toBe(409);
  expect((await kube.get<Config>(CONFIGS, metadata, call))?.data).toEqual({ a: '2' });
  expect(replaced.metadata.uid).toBe(metadata.uid);
  await removeConfig(made);
  expect(await kube.get(CONFIGS, metadata, call)).toBeUndefined();
});

test("a rejected request fails with the server's reason and the invalid fields", async () => {
  const spec = { displayName: 'x' };
  const error = await failure(kube.create(TENANTS, { metadata: { namespace, name: 'short' }, spec }, call));
  expect(error).toMatchObject({ code: 422, reason: 'Invalid' });
  expect(error.status?.details?.causes?.map(({ field }) => field)).toContain('spec.displayName');
  const unknown = kube.create(
    TENANTS,
    { metadata: { namespace, name: 'odd' }, spec: { planReff: {} } },
    call,
  );
  expect((await failure(unknown)).message).toContain('planReff');
});

test('a list with a limit returns pages that together contain every object', async () => {
  const own = await server.createNamespace();
  const names = Array.from({ length: 7 }, (_, index) => `page-${index}`);
  for (const name of names) await kube.create(CONFIGS, { metadata: { namespace: own, name } }, call);
  const seen: string[] = [];
  let pages = 0;
  let next: string | undefined;
  do {
    const page = await kube.list(CONFIGS, { ...call, namespace: own, limit: 3, continue: next });
    seen.push(...page.items.map(({ metadata }) => metadata.name));
    next = page.metadata.continue;
    pages += 1;
  } while (next !== undefined && next !== '');
  expect([seen, pages]).toEqual([names, 3]);
});

test('applyStatus changes only the status, and the same status again changes nothing', async () => {
  const { metadata } = await makeTenant();
  const status = { slug: 'shop', observedGeneration: 1 };
  const ref = { namespace, name: metadata.name, uid: metadata.uid };
  const first = await kube.applyStatus<KubeObject & { status: object }>(TENANTS, ref, status, applied);
  expect(first.status).toEqual(status);
  expect(first.metadata.generation).toBe(metadata.generation);
  const again = await kube.applyStatus(TENANTS, ref, status, applied);
  expect(again.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
  const gone = await kube.applyStatus<KubeObject & { status: object }>(
    TENANTS,
    ref,
    { slug: 'shop' },
    applied,
  );
  expect(gone.status).toEqual({ slug: 'shop' });
});

test.each([
  ['with the old uid and version', true],
  ['with the old uid alone', false],
])('applyStatus rejects an object that was deleted or re-created: %s', async (_how, isBound) => {
  const { metadata } = await makeTenant();
  const { uid, resourceVersion } = metadata;
  const ref = { namespace, name: metadata.name, uid, ...(isBound ? { resourceVersion } : {}) };
  await server.request(
    'DELETE',
    `/apis/despatch.dev/v1alpha1/namespaces/${namespace}/tenants/${metadata.name}`,
  );
  expect((await failure(kube.applyStatus(TENANTS, ref, { slug: 'old' }, applied))).code).toBe(404);
  await makeTenant(metadata.name);
  expect((await failure(kube.applyStatus(TENANTS, ref, { slug: 'old' }, applied))).code).toBe(409);
  expect(await kube.get(TENANTS, ref, call)).not.toHaveProperty('status.slug');
});

test('applyStatus succeeds although the spec changed after the object was read', async () => {
  const { metadata } = await makeTenant();
  await kube.apply(
    TENANTS,
    { namespace, name: metadata.name },
    { spec: { displayName: 'Changed' } },
    applied,
  );
  const { uid, resourceVersion } = metadata;
  const ref = { namespace, name: metadata.name, uid, resourceVersion };
  await kube.applyStatus(TENANTS, ref, { slug: 'shop' }, applied);
  expect(await kube.get(TENANTS, ref, call)).toMatchObject({
    spec: { displayName: 'Changed' },
    status: { slug: 'shop' },
  });
});

test('finalizers added concurrently are all stored, and removing one keeps the others', async () => {
  const made = await makeConfig();
  const names = Array.from({ length: 6 }, (_, index) => `despatch.dev/f-${index}`);
  const all = () =>
    kube.get(CONFIGS, made.metadata, call).then((now) => now?.metadata.finalizers?.toSorted());
  // Each call starts from the object as it was created.
  await Promise.all(names.map((add) => kube.patchFinalizers(CONFIGS, made, { add }, call)));
  expect(await all()).toEqual(names);
  const now = (await kube.get(CONFIGS, made.metadata, call)) as KubeObject;
  await kube.patchFinalizers(CONFIGS, now, { remove: 'despatch.dev/f-3' }, call);
  expect(await all()).toEqual(names.filter((name) => !name.endsWith('3')));
});

test('a finalizer for a deleted object is not added to a new object of the same name', async () => {
  const made = await makeConfig();
  await removeConfig(made);
  const again = await makeConfig(made.metadata.name);
  expect(await kube.patchFinalizers(CONFIGS, made, { add: 'despatch.dev/x' }, call)).toBeUndefined();
  expect((await kube.get(CONFIGS, again.metadata, call))?.metadata.finalizers).toBeUndefined();
});

test('a watch reports events after a resource version, with bookmarks, and ends at its timeout', async () => {
  const { metadata } = await kube.list(CONFIGS, { ...call, namespace });
  const events: KubeWatchEvent<KubeObject>[] = [];
  const watching = kube.watch(CONFIGS, {
    ...call,
    namespace,
    resourceVersion: metadata.resourceVersion,
    timeoutSeconds: 3,
    onEvent: (event) => events.push(event),
  });
  const made = await makeConfig(undefined, { text: 'Grüße 📨'.repeat(5_000) });
  await removeConfig(made);
  await watching;
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(['ADDED', 'DELETED']);
  expect((events[0] as { object: Config }).object.data?.['text']).toBe('Grüße 📨'.repeat(5_000));
  // The server sends a bookmark before it ends a watch.
  expect(events.at(-1)?.type).toBe('BOOKMARK');
});

test('a hundred calls share at most eight connections', async () => {
  let connections = 0;
  await using proxy = await startTcpProxy(Number(new URL(server.url).port), () => {
    connections += 1;
    return () => [];
  });
  const kubeconfig = adminKubeconfig(server.access, `https://127.0.0.1:${proxy.port}`);
  await using client = openKube({ kubeconfig, userAgent: 'test' });
  const { metadata } = await makeConfig();
  const read = () => client.get(CONFIGS, metadata, call);
  for (let times = 0; times < 25; times += 1) await Promise.all([read(), read(), read(), read()]);
  // A hundred calls, four at a time: the next four begin before the client has released the connections of the last.
  expect(connections).toBeLessThanOrEqual(8);
});

test('a call on a silently dead connection is retried on a new one', async () => {
  await using proxy = await startTcpProxy(Number(new URL(server.url).port));
  const kubeconfig = adminKubeconfig(server.access, `https://127.0.0.1:${proxy.port}`);
  await using client = openKube({ kubeconfig, userAgent: 'test' });
  const { metadata } = await makeConfig();
  await client.get(CONFIGS, metadata, call);
  proxy.freeze();
  const reading = client.get(CONFIGS, metadata, { ...call, attemptMs: 1_500, deadlineMs: 45_000 });
  setTimeout(() => {
    proxy.cut();
    proxy.thaw();
  }, 2_500);
  expect((await reading)?.metadata.uid).toBe(metadata.uid);
});

test('in a pod, an expired token is replaced by the new one in the token file', async () => {
  const root = await mkdtemp(join(tmpdir(), 'despatch-account-'));
  const folder = join(root, 'var/run/secrets/kubernetes.io/serviceaccount');
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'ca.crt'), readFileSync(join(server.access.tlsDir, 'ca.pem')));
  const first = await accountToken();
  await writeFile(join(folder, 'token'), first.token);
  const { hostname, port } = new URL(server.url);
  Object.assign(process.env, { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port });
  const codes: string[] = [];
  await using client = openKube({
    serviceAccountRoot: root,
    userAgent: 'test',
    onRequest: ({ code }) => codes.push(code),
  });
  const read = () => client.get(CONFIGS, { namespace, name: 'any' }, call);
  await read();
  // Deleting the Secret to which a token is bound revokes it; the server accepts it for another ten seconds.
  await first.end();
  await expect.poll(() => read().catch((error: KubeError) => error.code), { interval: 500 }).toBe(401);
  const { token } = await accountToken();
  await writeFile(join(folder, 'token'), token);
  codes.length = 0;
  await read();
  expect(codes).toEqual(['404']);
  await rm(root, { recursive: true });
});

/** Creates a token of the namespace's service account, bound to a Secret of its own. */
async function accountToken(): Promise<{ token: string; end: () => Promise<unknown> }> {
  const name = `bound-${randomUUID().slice(0, 8)}`;
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace } };
  await server.apply(secret);
  await server.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'Role',
    metadata: { name: 'reader', namespace },
    rules: [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }],
  });
  await server.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'reader', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
    subjects: [{ kind: 'ServiceAccount', name: 'default', namespace }],
  });
  const { body, status } = await server.request(
    'POST',
    `/api/v1/namespaces/${namespace}/serviceaccounts/default/token`,
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { boundObjectRef: { apiVersion: 'v1', kind: 'Secret', name }, expirationSeconds: 600 },
    },
  );
  expect(status).toBe(201);
  return {
    token: body.status.token as string,
    end: () => server.request('DELETE', `/api/v1/namespaces/${namespace}/secrets/${name}`),
  };
}
