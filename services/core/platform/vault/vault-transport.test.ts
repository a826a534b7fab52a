import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, expect, test, vi } from 'vitest';
import { createVaultTransport, type VaultCall } from './vault-transport.ts';

afterEach(() => void vi.unstubAllEnvs());

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** Starts a server that gives these answers in turn; `seen` has the method, path, token and body of each request. */
async function startServer(...answers: readonly Answer[]) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const token = String(request.headers['x-vault-token'] ?? '');
      seen.push([request.method, request.url, token, body].join(' ').trim());
      answers[Math.min(seen.length, answers.length) - 1]?.(response, request);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    seen,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const json =
  (status: number, body: object): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

const transport = (address: string, deadlineMs = 5_000) =>
  createVaultTransport({ config: { address }, deadlineMs, onRequest: () => undefined });
const READ: VaultCall = { op: 'read_key', method: 'GET', path: 'transit/keys/x', token: 't' };
const WRITE: VaultCall = { ...READ, op: 'encrypt', method: 'POST', body: { plaintext: 'p' } };

test.each(['HTTP_PROXY', 'http_proxy', 'ALL_PROXY'])(
  'a proxy in the variable %s gets neither tokens nor secrets',
  async (variable) => {
    await using proxy = await startServer(json(200, {}));
    await using vault = await startServer(json(200, { data: { a: 1 } }));
    vi.stubEnv('NO_PROXY', undefined);
    vi.stubEnv('no_proxy', undefined);
    vi.stubEnv(variable, proxy.url);
    expect(await transport(vault.url)(WRITE)).toMatchObject({ status: 200, body: { data: { a: 1 } } });
    expect(vault.seen).toEqual(['POST /v1/transit/keys/x t {"plaintext":"p"}']);
    expect(proxy.seen).toEqual([]);
  },
);

test('a standby that names the active server is followed with method, token and body', async () => {
  await using active = await startServer(json(200, { data: {} }));
  await using standby = await startServer((response, { url }) => {
    response.writeHead(307, { location: active.url + url }).end();
  });
  expect(await transport(standby.url)(WRITE)).toMatchObject({ status: 200 });
  expect([standby.seen, active.seen]).toEqual([active.seen, ['POST /v1/transit/keys/x t {"plaintext":"p"}']]);
});

test.each<[string, Answer, object]>([
  [
    'of Vault',
    json(403, { errors: ['permission denied', 'more'] }),
    { status: 403, error: 'permission denied' },
  ],
  ['without a reason', json(404, { errors: [] }), { status: 404, error: '' }],
  [
    'of a proxy',
    (response) => void response.writeHead(502).end('<html>'),
    { status: 502, error: 'not an answer of Vault: 502' },
  ],
  [
    'of a proxy that writes JSON',
    json(404, { message: 'not found' }),
    { status: 404, error: 'not an answer of Vault: 404' },
  ],
])('a refusal %s has its status and its first text', async (_whose, answer, expected) => {
  await using vault = await startServer(answer);
  expect(await transport(vault.url)(READ)).toMatchObject({ body: null, ...expected });
  expect(vault.seen).toEqual(['GET /v1/transit/keys/x t']);
});

test('an answer without content is a success', async () => {
  await using vault = await startServer((response) => void response.writeHead(204).end());
  expect(await transport(vault.url)({ ...READ, method: 'DELETE' })).toMatchObject({ status: 200, error: '' });
});

test('a call whose connection breaks is made once more', async () => {
  await using vault = await startServer((response) => void response.destroy(), json(200, {}));
  expect(await transport(vault.url)(READ)).toMatchObject({ status: 200 });
  expect(vault.seen).toHaveLength(2);
});

test('a call without an answer ends at its deadline, and its connection with it', async () => {
  const closed = Promise.withResolvers<void>();
  await using vault = await startServer((response) => void response.on('close', closed.resolve));
  expect(await transport(vault.url, 100)(READ)).toMatchObject({ status: 0, isLate: true });
  await closed.promise;
  expect(vault.seen).toHaveLength(1);
});
