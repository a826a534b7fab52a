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
        { ...call(), fieldManager: 'me', force: false },
      ),
    {
      method: 'PATCH',
      path: `${BASE}/namespaces/acme/tenants/shop/status`,
      query: { fieldManager: 'me', force: 'false' },
      type: 'application/apply-patch+yaml',
      body: {
        apiVersion: 'despatch.dev/v1alpha1',
        kind: 'Tenant',
        metadata: { ...ONE, resourceVersion: '7' },
        status: { slug: 'x' },
      },
    },
  ],
  [
    'a deletion',
    (kube) => kube.delete(TENANTS, { ...ONE, uid: 'u' }, call()),
    { method: 'DELETE', body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid: 'u' } } },
  ],
])('%s is asked for as the API server wants it', async (_what, act, expected) => {
  await using parts = await stage(found('8'));
  await act(parts.kube);
  expect(parts.calls[0]).toMatchObject(expected);
  if (expected.query !== undefined) expect(parts.calls[0]?.query).toEqual(expected.query);
});

test('a name leads to no other path', async () => {
  await using parts = await stage(found('8'));
  await parts.kube.get(TENANTS, { namespace: 'a', name: 'b/../../c' }, call());
  expect(parts.calls.map(({ path }) => path)).toEqual([`${BASE}/namespaces/a/tenants/b%2F..%2F..%2Fc`]);
  for (const ref of [{ namespace: '..', name: 'b' }, { namespace: 'a', name: '' }, { name: '.' }])
    await expect(parts.kube.get(TENANTS, ref, call())).rejects.toThrow(RangeError);
  expect(parts.calls).toHaveLength(1);
});

test('an object of a kind without namespaces is asked for without one', async () => {
  await using parts = await stage(found('8'));
  const plans = { ...TENANTS, plural: 'plans', kind: 'Plan', namespaced: false };
  const named = { ...call(), fieldManager: 'me' };
  await parts.kube.list(plans, { ...call(), namespace: 'acme' });
  await parts.kube.get(plans, { name: 'pro' }, call());
  await parts.kube.create(plans, { metadata: { name: 'pro' } }, call());
  await parts.kube.replace(plans, { metadata: { name: 'pro', uid: 'u', resourceVersion: '7' } }, call());
  await parts.kube.apply(plans, { name: 'pro' }, {}, named);
  await parts.kube.applyStatus(plans, { name: 'pro' }, {}, named);
  await parts.kube.delete(plans, { name: 'pro' }, call());
  expect(parts.calls.map(({ method, path }) => `${method} ${path.slice(BASE.length)}`)).toEqual([
    'GET /plans',
    'GET /plans/pro',
    'POST /plans',
    'PUT /plans/pro',
    'PATCH /plans/pro',
    'PATCH /plans/pro/status',
    'DELETE /plans/pro',
  ]);
});

test('a failure tells code, reason and the wait that the server asks for', async () => {
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

test('a failure without a Status, from a proxy for example, is one all the same', async () => {
  await using parts = await stage((response) => void response.writeHead(403).end('<html>no</html>'));
  expect(await failure(parts.kube.create(TENANTS, { metadata: ONE }, call()))).toMatchObject({
    code: 403,
    reason: 'Forbidden',
  });
});

test('an object that is not there is undefined, and deleting it is no failure', async () => {
  await using parts = await stage(refuse(404, 'NotFound'));
  expect(await parts.kube.get(TENANTS, ONE, call())).toBeUndefined();
  expect(await parts.kube.delete(TENANTS, ONE, call())).toBe(false);
  expect((await failure(parts.kube.list(TENANTS, call()))).code).toBe(404);
});

test('an object of the same name that is another one is not deleted', async () => {
  await using parts = await stage(refuse(409, 'Conflict'));
  expect(await parts.kube.delete(TENANTS, { ...ONE, uid: 'old' }, call())).toBe(false);
});

test('whoever is told to wait waits, and then asks again', async () => {
  await using parts = await stage(refuse(429, 'TooManyRequests', { 'retry-after': '1' }), found('8'));
  await parts.kube.get(TENANTS, ONE, call());
  const [first, second] = parts.calls;
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(1_000);
  expect(parts.counted).toEqual(['GET 429', 'GET 200']);
});

test('a wait beyond the deadline is not begun, and handed to the caller', async () => {
  await using parts = await stage(refuse(429, 'TooManyRequests', { 'retry-after': '30' }));
  const started = performance.now();
  const error = await failure(parts.kube.get(TENANTS, ONE, call(20_000)));
  expect(error).toMatchObject({ code: 429, retryAfterMs: 30_000 });
  expect(performance.now() - started).toBeLessThan(15_000);
});

type Act = (kube: KubeClient) => Promise<unknown>;
const get: Act = (kube) => kube.get(TENANTS, ONE, call());
const applied: Act = (kube) => kube.apply(TENANTS, ONE, {}, { ...call(), fieldManager: 'me' });
const created: Act = (kube) => kube.create(TENANTS, { metadata: ONE }, call());
const replaced: Act = (kube) => kube.replace(TENANTS, tenant('7'), call());
const deleted: Act = (kube) => kube.delete(TENANTS, ONE, call());
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
  ['a deletion by name', 'a cut connection', deleted, cut, 1],
  ['a read', 'a refusal', get, refuse(403, 'Forbidden'), 1],
])('%s after %s is sent again only where that does no harm', async (_what, _fault, act, fault, times) => {
  await using parts = await stage(fault, found('8'));
  await act(parts.kube).catch(() => undefined);
  expect(parts.calls).toHaveLength(times);
});

test('a server that is down gets no more than a few tries a call, and a trickle from all calls together', async () => {
  await using parts = await stage(refuse(503, 'ServiceUnavailable'));
  const calls = Array.from({ length: 20 }, () => failure(parts.kube.get(TENANTS, ONE, call(3_000))));
  const started = performance.now();
  await Promise.all(calls);
  const seconds = (performance.now() - started) / 1_000;
  // The twenty first attempts are not limited; retries share a bucket of twenty plus two a second.
  expect(parts.calls.length).toBeLessThanOrEqual(20 + 20 + 2 * (seconds + 1));
  expect(parts.calls.length).toBeGreaterThan(30);
});

test('a call that gets no answer ends at its deadline, whatever it was tried', async () => {
  await using parts = await stage(silent);
  const started = performance.now();
  const error = await failure(parts.kube.get(TENANTS, ONE, { ...call(700), attemptMs: 200 }));
  expect(error.reason).toBe('Timeout');
  expect(performance.now() - started).toBeLessThan(10_000);
  expect(parts.counted).toContain('GET <error>');
});

test('a call ends at its deadline and with its signal even while its connection is being made', async () => {
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

test('a signal ends a call at once', async () => {
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

test('an answer that is no JSON is a failure', async () => {
  await using parts = await stage((response) => void response.writeHead(200).end('{"metadata":'));
  expect((await failure(get(parts.kube))).reason).toBe('Unreadable');
});

test('a page that is no JSON is a failure, whatever it says it is', async () => {
  await using parts = await stage(
    (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>hi</html>'),
  );
  expect((await failure(get(parts.kube))).reason).toBe('Unreadable');
});

test('an answer without an end is not taken in whole', async () => {
  const piece = Buffer.alloc(1024 * 1024, 'x');
  await using parts = await stage((response) => {
    response.writeHead(response.req.method === 'GET' ? 200 : 403);
    const pour = (): void => {
      while (!response.destroyed && response.write(piece)) continue;
      if (!response.destroyed) response.once('drain', pour);
    };
    pour();
  });
  expect(await failure(get(parts.kube))).toMatchObject({ code: 0, reason: 'Unreadable' });
  expect(await failure(created(parts.kube))).toMatchObject({ code: 403, reason: 'Forbidden' });
});

test('calls that follow each other share connections', async () => {
  await using parts = await stage(found('8'));
  for (let times = 0; times < 20; times += 1) await get(parts.kube);
  expect(parts.calls).toHaveLength(20);
  // The second call starts before the first has been notified of the end of its answer.
  expect(parts.sockets()).toBeLessThanOrEqual(2);
});

test('a token that was rotated is read when the old one is refused', async () => {
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

test('a token that is refused is read again once, and then the refusal is believed', async () => {
  await using parts = await stage(refuse(401, 'Unauthorized'));
  await failure(get(parts.kube));
  const tokens = parts.calls.map(({ token }) => token);
  await writeFile(parts.tokenFile, 'second\n');
  await failure(get(parts.kube));
  expect(tokens).toEqual(['Bearer first', 'Bearer first']);
  expect(parts.calls.slice(2).map(({ token }) => token)).toEqual(['Bearer second', 'Bearer second']);
});

test('a token that cannot be read is a failure of its own', async () => {
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
])('a status is bound to the object it is meant for, by %s', async (_what, bound, answers, versions) => {
  await using parts = await stage(...answers);
  const options = { ...call(), fieldManager: 'me' };
  await parts.kube.applyStatus(TENANTS, { ...ONE, uid: 'uid-1', ...bound }, {}, options);
  expect(parts.calls.map(({ body }) => body?.metadata.resourceVersion)).toEqual(versions);
});

test('a conflict over fields is not taken for one over versions', async () => {
  await using parts = await stage(refuse(409, 'Conflict'));
  const options = { ...call(), fieldManager: 'me', force: false };
  const ref = { ...ONE, uid: 'uid-1', resourceVersion: '7' };
  expect((await failure(parts.kube.applyStatus(TENANTS, ref, {}, options))).code).toBe(409);
  expect(parts.calls).toHaveLength(1);
});

test('a finalizer is added to those that others added at the same time', async () => {
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
  ['is not there to be removed', { remove: 'b' }, [], 0, '7'],
  ['belongs to an object that is gone', { remove: 'a' }, [refuse(404, 'NotFound')], 1, undefined],
  [
    'belongs to an object that was made anew',
    { remove: 'a' },
    [refuse(409, 'Conflict'), found('9', ['a'], 'uid-2')],
    2,
    undefined,
  ],
])('a finalizer that %s costs no write too many', async (_what, change, answers, calls, version) => {
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
  'a change of %s is not made again on top of another one by who leads no longer',
  async (_what, write, now) => {
    await using parts = await stage(refuse(409, 'Conflict'), now, silent);
    let asked = 0;
    const options = { ...call(), fieldManager: 'me', mayWrite: () => (asked += 1) === 1 };
    expect((await failure(write(parts.kube, options))).reason).toBe('NotLeading');
    expect(parts.calls.map(({ method }) => method)).toEqual(['PATCH', 'GET']);
  },
);

test('a change of finalizers that always meets another one gives up', async () => {
  const conflicts = Array.from({ length: 5 }, (_, round) => [
    refuse(409, 'Conflict'),
    found(`${round + 8}`, []),
  ]);
  await using parts = await stage(...conflicts.flat(), refuse(409, 'Conflict'));
  const patched = parts.kube.patchFinalizers(TENANTS, tenant('7'), { add: 'mine' }, call());
  expect((await failure(patched)).code).toBe(409);
});
