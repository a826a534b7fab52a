import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import {
  BASE,
  call,
  cut,
  failure,
  found,
  kubeconfigFor,
  ONE,
  refuse,
  silent,
  stage,
  tenant,
  TENANTS,
  type Answer,
  type Call,
} from '#test/support/scripted-kube.ts';
import type { KubeApplyOptions, KubeClient } from './kube-client.ts';
import { openKube } from './kube.ts';

test.each<[string, (kube: KubeClient) => Promise<unknown>, Partial<Call>]>([
  [
    'a page of a list',
    (kube) => kube.list(TENANTS, { ...call(), namespace: 'acme', limit: 500, continue: 'x&y' }),
    { method: 'GET', path: `${BASE}/namespaces/acme/tenants`, query: { limit: '500', continue: 'x&y' } },
  ],
  [
    'a list of all namespaces',
    (kube) => kube.list(TENANTS, call()),
    { method: 'GET', path: `${BASE}/tenants`, query: {} },
  ],
  [
    'an object of the core group',
    (kube) => kube.get({ ...TENANTS, group: '', version: 'v1', plural: 'secrets' }, ONE, call()),
    { method: 'GET', path: '/api/v1/namespaces/acme/secrets/shop' },
  ],
  [
    'a new object',
    (kube) => kube.create(TENANTS, { metadata: ONE, spec: { slug: 'shop' } }, call()),
    {
      method: 'POST',
      path: `${BASE}/namespaces/acme/tenants`,
      query: { fieldValidation: 'Strict' },
      body: { apiVersion: 'despatch.dev/v1alpha1', kind: 'Tenant', metadata: ONE, spec: { slug: 'shop' } },
    },
  ],
  [
    'a replaced object',
    (kube) => kube.replace(TENANTS, tenant('7'), call()),
    { method: 'PUT', path: `${BASE}/namespaces/acme/tenants/shop`, type: 'application/json' },
  ],
  [
    'an applied object',
    (kube) => kube.apply(TENANTS, ONE, { spec: {} }, { ...call(), fieldManager: 'me' }),
    {
      method: 'PATCH',
      path: `${BASE}/namespaces/acme/tenants/shop`,
      query: { fieldManager: 'me', force: 'true', fieldValidation: 'Strict' },
      type: 'application/apply-patch+yaml',
      body: { apiVersion: 'despatch.dev/v1alpha1', kind: 'Tenant', metadata: ONE, spec: {} },
    },
  ],
  [
    'an applied status',
    (kube) =>
      kube.applyStatus(
        TENANTS,
        { ...ONE, uid: 'u', resourceVersion: '7' },
        { slug: 'x' },
        { ...call(), fieldManager: 'me' },
      ),
    {
      method: 'PATCH',
      path: `${BASE}/namespaces/acme/tenants/shop/status`,
      query: { fieldManager: 'me', force: 'true' },
      type: 'application/apply-patch+yaml',
      body: {
        apiVersion: 'despatch.dev/v1alpha1',
        kind: 'Tenant',
        metadata: { ...ONE, resourceVersion: '7' },
        status: { slug: 'x' },
      },
    },
  ],
])(
  'the request for %s has the method, path, query and body that the API server expects',
  async (_what, act, expected) => {
    await using parts = await stage(found('8'));
    await act(parts.kube);
    expect(parts.calls[0]).toMatchObject(expected);
    if (expected.query !== undefined) expect(parts.calls[0]?.query).toEqual(expected.query);
  },
);

test("names are escaped in paths, and '..', '.' and empty names are rejected", async () => {
  await using parts = await stage(found('8'));
  await parts.kube.get(TENANTS, { namespace: 'a', name: 'b/../../c' }, call());
  expect(parts.calls.map(({ path }) => path)).toEqual([`${BASE}/namespaces/a/tenants/b%2F..%2F..%2Fc`]);
  for (const ref of [{ namespace: '..', name: 'b' }, { namespace: 'a', name: '' }, { name: '.' }])
    await expect(parts.kube.get(TENANTS, ref, call())).rejects.toThrow(RangeError);
  expect(parts.calls).toHaveLength(1);
});

test('requests for a cluster-scoped kind contain no namespace', async () => {
  await using parts = await stage(found('8'));
  const plans = { ...TENANTS, plural: 'plans', kind: 'Plan', namespaced: false };
  const named = { ...call(), fieldManager: 'me' };
  await parts.kube.list(plans, { ...call(), namespace: 'acme' });
  await parts.kube.get(plans, { name: 'pro' }, call());
  await parts.kube.create(plans, { metadata: { name: 'pro' } }, call());
  await parts.kube.replace(plans, { metadata: { name: 'pro', uid: 'u', resourceVersion: '7' } }, call());
  await parts.kube.apply(plans, { name: 'pro' }, {}, named);
  await parts.kube.applyStatus(plans, { name: 'pro' }, {}, named);
  expect(parts.calls.map(({ method, path }) => `${method} ${path.slice(BASE.length)}`)).toEqual([
    'GET /plans',
    'GET /plans/pro',
    'POST /plans',
    'PUT /plans/pro',
    'PATCH /plans/pro',
    'PATCH /plans/pro/status',
  ]);
});

test('a failure contains the code, reason and message of the API server', async () => {
  await using parts = await stage(refuse(422, 'Invalid'));
  const error = await failure(parts.kube.create(TENANTS, { metadata: ONE }, call()));
  expect(error).toMatchObject({
    code: 422,
    reason: 'Invalid',
    message: 'It is Invalid',
    retryAfterMs: undefined,
  });
  expect(error.status?.code).toBe(422);
});

test('a failure without a Status object, as from a proxy, gets its reason from the code', async () => {
  await using parts = await stage((response) => void response.writeHead(403).end('<html>no</html>'));
  expect(await failure(parts.kube.create(TENANTS, { metadata: ONE }, call()))).toMatchObject({
    code: 403,
    reason: 'Forbidden',
  });
});

test('get returns undefined for a missing object', async () => {
  await using parts = await stage(refuse(404, 'NotFound'));
  expect(await parts.kube.get(TENANTS, ONE, call())).toBeUndefined();
  expect((await failure(parts.kube.list(TENANTS, call()))).code).toBe(404);
});

test('a 429 is retried after its Retry-After', async () => {
  await using parts = await stage(refuse(429, 'TooManyRequests', { 'retry-after': '1' }), found('8'));
  await parts.kube.get(TENANTS, ONE, call());
  const [first, second] = parts.calls;
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1_000);
  expect(parts.counted).toEqual(['GET 429', 'GET 200']);
});

test('a Retry-After beyond the deadline is returned to the caller without a wait', async () => {
  await using parts = await stage(refuse(429, 'TooManyRequests', { 'retry-after': '30' }));
  const started = performance.now();
  const error = await failure(parts.kube.get(TENANTS, ONE, call(20_000)));
  expect(error).toMatchObject({ code: 429, retryAfterMs: 30_000 });
  expect(performance.now() - started).toBeLessThan(15_000);
});

test.each([
  ['86400', 900_000],
  ['-5', undefined],
  ['soon', undefined],
])('a Retry-After of %s means %s ms', async (text, retryAfterMs) => {
  await using parts = await stage(refuse(503, 'ServiceUnavailable', { 'retry-after': text }));
  expect(await failure(created(parts.kube))).toMatchObject({ code: 503, retryAfterMs });
  expect(parts.calls).toHaveLength(1);
});

type Act = (kube: KubeClient) => Promise<unknown>;
const get: Act = (kube) => kube.get(TENANTS, ONE, call());
const applied: Act = (kube) => kube.apply(TENANTS, ONE, {}, { ...call(), fieldManager: 'me' });
const created: Act = (kube) => kube.create(TENANTS, { metadata: ONE }, call());
const replaced: Act = (kube) => kube.replace(TENANTS, tenant('7'), call());
const wait = { 'retry-after': '0' };

test.each<[string, string, Act, Answer, number]>([
  ['a read', 'a server fault', get, refuse(500, 'InternalError'), 2],
  ['a read', 'a cut connection', get, cut, 2],
  ['an apply', 'a cut connection', applied, cut, 2],
  ['an apply', 'a server fault', applied, refuse(503, 'ServiceUnavailable'), 2],
  ['a creation', 'a cut connection', created, cut, 1],
  ['a creation', 'a server fault', created, refuse(500, 'InternalError'), 1],
  ['a creation', 'a server fault that asks for it', created, refuse(503, 'ServiceUnavailable', wait), 2],
  ['a creation', 'too many requests', created, refuse(429, 'TooManyRequests', wait), 2],
  ['a replacement', 'a cut connection', replaced, cut, 1],
  ['a replacement', 'a conflict', replaced, refuse(409, 'Conflict'), 1],
  ['a read', 'a refusal', get, refuse(403, 'Forbidden'), 1],
])('%s after %s is retried only if that is safe', async (_what, _fault, act, fault, times) => {
  await using parts = await stage(fault, found('8'));
  await act(parts.kube).catch(() => undefined);
  expect(parts.calls).toHaveLength(times);
});

test('retries against a failing server are limited per call and over all calls', async () => {
  await using parts = await stage(refuse(503, 'ServiceUnavailable'));
  const calls = Array.from({ length: 20 }, () => failure(parts.kube.get(TENANTS, ONE, call(3_000))));
  const started = performance.now();
  await Promise.all(calls);
  const seconds = (performance.now() - started) / 1_000;
  // The twenty first attempts are not limited; retries share a bucket of twenty plus two a second.
  expect(parts.calls.length).toBeLessThanOrEqual(20 + 20 + 2 * (seconds + 1));
  expect(parts.calls.length).toBeGreaterThan(30);
});

test('a call without an answer ends at its deadline, even between attempts', async () => {
  await using parts = await stage(silent);
  const started = performance.now();
  const error = await failure(parts.kube.get(TENANTS, ONE, { ...call(700), attemptMs: 200 }));
  expect(error.reason).toBe('Timeout');
  expect(performance.now() - started).toBeLessThan(10_000);
  expect(parts.counted).toContain('GET <error>');
});

test('a call ends at its deadline or signal even during the TLS handshake', async () => {
  await using parts = await stage(silent);
  // Accepts connections and sends nothing, so the TLS handshake does not complete.
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const kubeconfig = `${parts.tokenFile}-kubeconfig`;
  await writeFile(kubeconfig, kubeconfigFor(`https://127.0.0.1:${port}`, parts.tokenFile));
  await using kube = openKube({ kubeconfig, userAgent: 'test' });
  const started = performance.now();
  expect((await failure(kube.get(TENANTS, ONE, { ...call(600), attemptMs: 200 }))).reason).toBe('Timeout');
  const end = new AbortController();
  const ending = failure(kube.get(TENANTS, ONE, { signal: end.signal }));
  setTimeout(() => end.abort(), 100);
  expect((await ending).reason).toBe('Aborted');
  // The server never answers.
  expect(performance.now() - started).toBeLessThan(15_000);
  server.close();
});

test('aborting the signal ends a call at once', async () => {
  await using parts = await stage(silent);
  const end = new AbortController();
  const failed = failure(parts.kube.get(TENANTS, ONE, { signal: end.signal }));
  await expect.poll(() => parts.calls.length).toBe(1);
  end.abort(new Error('enough'));
  expect(await failed).toMatchObject({ code: 0, reason: 'Aborted' });
  expect(await failure(parts.kube.get(TENANTS, ONE, { signal: end.signal }))).toMatchObject({
    reason: 'Aborted',
  });
  expect(parts.calls).toHaveLength(1);
});

test('an answer with invalid JSON is a failure', async () => {
  await using parts = await stage((response) => void response.writeHead(200).end('{"metadata":'));
  expect((await failure(get(parts.kube))).reason).toBe('Unreadable');
});

test('an HTML page with status 200 is a failure', async () => {
  await using parts = await stage(
    (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>hi</html>'),
  );
  expect((await failure(get(parts.kube))).reason).toBe('Unreadable');
});

test('an endless answer is cut off', async () => {
  const piece = Buffer.alloc(1024 * 1024, 'x');
  await using parts = await stage((response) => {
    response.writeHead(response.req.method === 'GET' ? 200 : 403);
    const pour = (): void => {
      while (!response.destroyed && response.write(piece)) continue;
      if (!response.destroyed) response.once('drain', pour);
    };
    pour();
  });
  expect(await failure(get(parts.kube))).toMatchObject({ code: 0, reason: 'TooLarge' });
  expect(await failure(created(parts.kube))).toMatchObject({ code: 403, reason: 'Forbidden' });
});

test('successive calls reuse connections', async () => {
  await using parts = await stage(found('8'));
  for (let times = 0; times < 20; times += 1) await get(parts.kube);
  expect(parts.calls).toHaveLength(20);
  // The second call starts before the first has been notified of the end of its answer.
  expect(parts.sockets()).toBeLessThanOrEqual(2);
});

test('a rotated token is read again when the old one is refused', async () => {
  let accepted = 'first';
  await using parts = await stage((response, one) =>
    (one.token === `Bearer ${accepted}` ? found('8') : refuse(401, 'Unauthorized'))(response, one),
  );
  await get(parts.kube);
  await writeFile(parts.tokenFile, 'second\n');
  await get(parts.kube);
  accepted = 'second';
  await created(parts.kube);
  expect(parts.calls.map(({ token }) => token)).toEqual([
    'Bearer first',
    'Bearer first',
    'Bearer first',
    'Bearer second',
  ]);
});

test('a refused token is read again once, and a second refusal is final', async () => {
  await using parts = await stage(refuse(401, 'Unauthorized'));
  await failure(get(parts.kube));
  const tokens = parts.calls.map(({ token }) => token);
  await writeFile(parts.tokenFile, 'second\n');
  await failure(get(parts.kube));
  expect(tokens).toEqual(['Bearer first', 'Bearer first']);
  expect(parts.calls.slice(2).map(({ token }) => token)).toEqual(['Bearer second', 'Bearer second']);
});

test('an unreadable token file fails with the reason Credentials', async () => {
  await using parts = await stage(found('8'));
  await rm(parts.tokenFile);
  expect((await failure(get(parts.kube))).reason).toBe('Credentials');
  await writeFile(parts.tokenFile, 'first\n');
  await get(parts.kube);
});

test.each([
  ['a missing file', '/nowhere/kubeconfig', 'ENOENT'],
  ['no service account', undefined, 'There is no service account'],
])('without credentials it does not start: %s', (_what, kubeconfig, message) => {
  expect(() => openKube({ kubeconfig, userAgent: 'test' })).toThrow(message);
});

test.each([
  [
    'its version',
    { resourceVersion: '7' },
    [refuse(409, 'Conflict'), found('8'), found('9')],
    ['7', undefined, '8'],
  ],
  ['its uid alone', {}, [found('8'), found('9')], [undefined, '8']],
])(
  'a status is applied only to the intended object, identified by %s',
  async (_what, bound, answers, versions) => {
    await using parts = await stage(...answers);
    const options = { ...call(), fieldManager: 'me' };
    await parts.kube.applyStatus(TENANTS, { ...ONE, uid: 'uid-1', ...bound }, {}, options);
    expect(parts.calls.map(({ body }) => body?.metadata.resourceVersion)).toEqual(versions);
  },
);

test('adding a finalizer keeps those that others added concurrently', async () => {
  await using parts = await stage(
    refuse(409, 'Conflict'),
    found('8', ['theirs']),
    found('9', ['theirs', 'mine']),
  );
  const change = { add: 'mine' };
  const after = await parts.kube.patchFinalizers(TENANTS, tenant('7'), change, call());
  expect(after?.metadata.resourceVersion).toBe('9');
  expect(parts.calls.map(({ method, body }) => [method, body?.metadata])).toEqual([
    ['PATCH', { uid: 'uid-1', resourceVersion: '7', finalizers: ['mine'] }],
    ['GET', undefined],
    ['PATCH', { uid: 'uid-1', resourceVersion: '8', finalizers: ['theirs', 'mine'] }],
  ]);
  expect(parts.calls[0]?.type).toBe('application/merge-patch+json');
});

test.each<[string, { add?: string; remove?: string }, Answer[], number, string | undefined]>([
  ['is there already', { add: 'a' }, [], 0, '7'],
  ['is already absent', { remove: 'b' }, [], 0, '7'],
  ['belongs to a deleted object', { remove: 'a' }, [refuse(404, 'NotFound')], 1, undefined],
  [
    'belongs to an object that was re-created',
    { remove: 'a' },
    [refuse(409, 'Conflict'), found('9', ['a'], 'uid-2')],
    2,
    undefined,
  ],
])('a finalizer that %s causes no needless write', async (_what, change, answers, calls, version) => {
  await using parts = await stage(...answers, silent);
  const after = await parts.kube.patchFinalizers(TENANTS, tenant('7', ['a']), change, call());
  expect(after?.metadata.resourceVersion).toBe(version);
  expect(parts.calls).toHaveLength(calls);
});

test.each<[string, (kube: KubeClient, options: KubeApplyOptions) => Promise<unknown>, Answer]>([
  [
    'finalizers',
    (kube, options) => kube.patchFinalizers(TENANTS, tenant('7', ['a']), { remove: 'a' }, options),
    found('8', ['a']),
  ],
  [
    'a status',
    (kube, options) => kube.applyStatus(TENANTS, { ...ONE, uid: 'uid-1', resourceVersion: '7' }, {}, options),
    found('8'),
  ],
])(
  'a change of %s is not retried after a conflict if the process no longer leads',
  async (_what, write, now) => {
    await using parts = await stage(refuse(409, 'Conflict'), now, silent);
    let asked = 0;
    const options = { ...call(), fieldManager: 'me', mayWrite: () => (asked += 1) === 1 };
    expect((await failure(write(parts.kube, options))).reason).toBe('NotLeading');
    expect(parts.calls.map(({ method }) => method)).toEqual(['PATCH', 'GET']);
  },
);

test('a change of finalizers gives up after repeated conflicts', async () => {
  const conflicts = Array.from({ length: 5 }, (_, round) => [
    refuse(409, 'Conflict'),
    found(`${round + 8}`, []),
  ]);
  await using parts = await stage(...conflicts.flat(), refuse(409, 'Conflict'));
  const patched = parts.kube.patchFinalizers(TENANTS, tenant('7'), { add: 'mine' }, call());
  expect((await failure(patched)).code).toBe(409);
});
