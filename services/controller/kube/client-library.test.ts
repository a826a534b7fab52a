/**
 * What the Kubernetes client library lacks, which is why our own code exists (ADR 22). A case that fails after an upgrade
 * shows that the library now has the feature: use it and delete our code.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  ApiException,
  CoordinationV1Api,
  CustomObjectsApi,
  KubeConfig,
  setHeaderMiddleware,
  Watch,
} from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import { kubeconfigFor } from '#test/support/scripted-kube.ts';

const ONE = { group: 'g', version: 'v1', namespace: 'a', plural: 'things', name: 'x' };
type Seen = { readonly path: string; readonly type: string | undefined; readonly body: string };

async function serve(answer: (response: ServerResponse) => void) {
  const seen: Seen[] = [];
  let sockets = 0;
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      seen.push({ path: request.url ?? '', type: request.headers['content-type'], body });
      answer(response);
    });
  });
  server.on('connection', () => (sockets += 1));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const config = new KubeConfig();
  config.loadFromString(
    kubeconfigFor(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, '/dev/null'),
  );
  return {
    config,
    api: config.makeApiClient(CustomObjectsApi),
    seen,
    sockets: () => sockets,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const json =
  (code: number, body: object) =>
  (response: ServerResponse): void =>
    void response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const thrown = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

test('its transport opens a connection for each call', async () => {
  await using parts = await serve(json(200, {}));
  for (let times = 0; times < 5; times += 1) await parts.api.getNamespacedCustomObject(ONE);
  expect(parts.sockets()).toBe(5);
});

test('its errors put the whole body into the message, and drop the body of a 401', async () => {
  const status = { reason: 'Invalid', message: 'a text that may be long' };
  await using refusing = await serve(json(422, status));
  const refused = (await thrown(refusing.api.getNamespacedCustomObject(ONE))) as ApiException<unknown>;
  expect(refused).toBeInstanceOf(ApiException);
  expect(refused.body).toBe(JSON.stringify(status));
  expect(refused.message).toContain('a text that may be long');
  await using unknown = await serve(json(401, status));
  expect(await thrown(unknown.api.getNamespacedCustomObject(ONE))).toMatchObject({
    code: 401,
    body: undefined,
  });
});

test('it does not retry a 429', async () => {
  await using parts = await serve(json(429, {}));
  await thrown(parts.api.getNamespacedCustomObject(ONE));
  expect(parts.seen).toHaveLength(1);
});

test('it returns an HTML page of a proxy as an object', async () => {
  await using parts = await serve((response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
  );
  expect(await parts.api.getNamespacedCustomObject(ONE)).toBe('<html>');
});

test('it does not reject a name that leads to another path', async () => {
  await using parts = await serve(json(200, {}));
  await parts.api.getNamespacedCustomObject({ ...ONE, name: '..' });
  expect(parts.seen[0]?.path).toBe('/apis/g/v1/namespaces/a');
});

test('it sends a patch as a JSON patch by default', async () => {
  await using parts = await serve(json(200, {}));
  await parts.api.patchNamespacedCustomObjectStatus({ ...ONE, body: { status: {} } });
  expect(parts.seen[0]?.type).toBe('application/json-patch+json');
});

test('it reverses the order of middlewares with each call', async () => {
  await using parts = await serve(json(200, {}));
  const order: number[] = [];
  const noting = (place: number) => {
    const { pre, post } = setHeaderMiddleware('x', 'y');
    return { pre: (request: Parameters<typeof pre>[0]) => (order.push(place), pre(request)), post };
  };
  const options = { middleware: [noting(1), noting(2)] };
  for (let times = 0; times < 2; times += 1) await parts.api.getNamespacedCustomObject(ONE, options);
  expect(order).toEqual([1, 2, 2, 1]);
});

test('its lease client drops unknown fields', async () => {
  const lease = { metadata: { name: 'x' }, spec: { holderIdentity: 'a', ofNextYear: 'b' } };
  await using parts = await serve(json(200, lease));
  const leases = parts.config.makeApiClient(CoordinationV1Api);
  const ref = { namespace: 'a', name: 'x' };
  await leases.replaceNamespacedLease({ ...ref, body: await leases.readNamespacedLease(ref) });
  expect(JSON.parse(parts.seen[1]?.body ?? '')).toEqual({ ...lease, spec: { holderIdentity: 'a' } });
});

test('its watch ignores unreadable lines and errors thrown by its callback', async () => {
  await using parts = await serve((response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"type":"ADDED","object":{"n":1}}\n{"type":"ADDED","obj\n');
    response.end('{"type":"ADDED","object":{"n":2}}\n{"type":"ADDED","object":{"n":3');
  });
  const told: unknown[] = [];
  const end = await new Promise((resolve) => {
    void new Watch(parts.config).watch(
      '/things',
      {},
      (_type, object) => {
        told.push(object);
        throw new Error('not handled');
      },
      resolve,
    );
  });
  expect([told, end]).toEqual([[{ n: 1 }, { n: 2 }], null]);
});

test('its watch returns neither the reason nor the retry delay of a refusal', async () => {
  await using parts = await serve(
    json(429, { reason: 'TooManyRequests', details: { retryAfterSeconds: 7 } }),
  );
  const end = await new Promise((resolve) => {
    void new Watch(parts.config).watch('/things', {}, () => undefined, resolve);
  });
  expect({ ...(end as object) }).toEqual({ statusCode: 429 });
});
