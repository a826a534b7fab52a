import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createSecureServer, createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import { createServer as createPlainServer, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { STAND_IN_CERTIFICATE, STAND_IN_KEY } from '#providers/smtp/stand-in-certificate.ts';
import { createHttpClient } from './http-client.ts';

type Http2 = AsyncDisposable & {
  readonly port: number;
  readonly sessions: ServerHttp2Session[];
  readonly requests: string[];
};

async function serve(
  server: Http2Server,
  answer: (request: number, session: ServerHttp2Session) => boolean = () => true,
): Promise<Http2> {
  const sessions: ServerHttp2Session[] = [];
  const requests: string[] = [];
  server.on('session', (session) => void sessions.push(session.on('error', () => {})));
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    let body = '';
    stream.setEncoding('utf8').on('data', (chunk: string) => void (body += chunk));
    stream.on('end', () => {
      requests.push(body);
      const isAnswered =
        stream.session !== undefined && answer(requests.length, stream.session as ServerHttp2Session);
      if (isAnswered && !stream.destroyed)
        stream.respond({ ':status': 200, 'x-path': headers[':path'] ?? '' }, { endStream: true });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    sessions,
    requests,
    [Symbol.asyncDispose]: async () => {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const to = (port: number, body = 'x', http2 = 'group') =>
  ({ method: 'POST', url: `http://127.0.0.1:${port}/p`, body, http2 }) as const;
const client = () => createHttpClient({ totalDeadlineMs: 10_000 });

describe('a request by HTTP/2', () => {
  test('shares one connection with earlier and concurrent requests', async () => {
    await using http = client();
    await using server = await serve(createServer());
    expect(await http(to(server.port))).toMatchObject({
      kind: 'response',
      status: 200,
      headers: { 'x-path': '/p' },
    });
    await Promise.all(Array.from({ length: 50 }, (_, i) => http(to(server.port, String(i)))));
    expect(await http(to(server.port))).toMatchObject({ status: 200 });
    expect([server.requests.length, server.sessions.length]).toEqual([52, 1]);
  });

  test('shares no connection with a request of another group', async () => {
    await using http = client();
    await using server = await serve(createServer());
    for (const group of ['a', 'b', 'a', 'b']) await http(to(server.port, 'x', group));
    expect(server.sessions).toHaveLength(2);
  });

  test.each([
    ['after a valid one', [true, false, false, true]],
    ['before any valid one', [false, false, true, true]],
  ])('with an invalid header does not affect other requests, %s', async (_, good) => {
    await using http = createHttpClient({ totalDeadlineMs: 2_000 });
    await using server = await serve(createServer());
    for (const isGood of good) {
      const result = await http({
        ...to(server.port),
        headers: { 'x-key': isGood ? 'order-17' : 'заказ-17' },
      });
      expect(result).toMatchObject(isGood ? { status: 200 } : { kind: 'not_sent', code: 'invalid_request' });
    }
    expect([server.requests.length, server.sessions.length]).toEqual([2, 1]);
  });

  test('that the server did not process before GOAWAY is sent again on another connection', async () => {
    await using http = client();
    await using server = await serve(createServer(), (request, session) => {
      // The server processes the first request of the connection and none of the later ones.
      if (request === 2) session.goaway(0, 1);
      return request !== 2;
    });
    expect(await http(to(server.port, 'first'))).toMatchObject({ status: 200 });
    expect(await http(to(server.port, 'second'))).toMatchObject({ status: 200 });
    expect(server.requests).toEqual(['first', 'second', 'second']);
    expect(server.sessions).toHaveLength(2);
  });

  test('that the server refuses on every connection is not_sent', async () => {
    await using http = client();
    await using server = await serve(createServer().on('session', (session) => session.goaway()));
    expect(await http(to(server.port))).toEqual({ kind: 'not_sent', code: 'connection_closed' });
    expect([server.requests, server.sessions.length]).toEqual([[], 2]);
  });

  test('that the server may have processed before GOAWAY is ambiguous and not sent again', async () => {
    await using http = client();
    await using server = await serve(createServer(), (_, session) => {
      session.goaway(0, 2 ** 31 - 1);
      setImmediate(() => session.destroy());
      return false;
    });
    expect(await http(to(server.port))).toMatchObject({ kind: 'ambiguous' });
    expect(server.requests).toHaveLength(1);
  });

  test('that is not answered in time is ambiguous, and the next one is answered', async () => {
    await using http = createHttpClient({ totalDeadlineMs: 1_000 });
    await using server = await serve(createServer(), (request) => request !== 1);
    expect(await http(to(server.port))).toEqual({ kind: 'ambiguous', code: 'timeout' });
    expect(await http(to(server.port))).toMatchObject({ status: 200 });
  });
});

describe('a call', () => {
  test.each([
    ['a vendor', {}],
    ["a tenant's host", { isTenantHost: true }],
  ] as const)('to %s waits for no other call to it', async (_, of) => {
    const resolve = async () => ({ kind: 'resolved', addresses: ['127.0.0.1'] }) as const;
    await using http = createHttpClient({ guard: { resolve } });
    const waiting: ServerResponse[] = [];
    const server = createPlainServer((request, response) => {
      if (request.url === '/slow') waiting.push(response);
      else response.end();
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const host = 'isTenantHost' in of ? 'shared.test' : '127.0.0.1';
    const call = (path: string) => http({ method: 'GET', ...of, url: `http://${host}:${port}${path}` });
    const slow = Array.from({ length: 100 }, () => call('/slow'));
    await expect.poll(() => waiting.length).toBe(100);
    expect(await call('/fast')).toMatchObject({ status: 200 });
    for (const response of waiting) response.end();
    expect(await Promise.all(slow)).toHaveLength(100);
    server.closeAllConnections();
    server.close();
  });

  test("to a tenant's host without TLS is connected once TCP is, however long the answer takes", async () => {
    const resolve = async () => ({ kind: 'resolved', addresses: ['127.0.0.1'] }) as const;
    await using http = createHttpClient({ guard: { resolve }, connectTimeoutMs: 200 });
    const server = createPlainServer((_, response) => void setTimeout(() => response.end(), 600));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const called = await http({ method: 'GET', isTenantHost: true, url: `http://mail.test:${port}/` });
    server.closeAllConnections();
    server.close();
    expect(called).toMatchObject({ status: 200 });
  });

  test('in a burst leaves no idle connection open for longer than a few seconds', async () => {
    await using http = createHttpClient();
    const server = createPlainServer({ keepAliveTimeout: 0 }, (_, response) => response.end());
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const url = `http://127.0.0.1:${port}/`;
    await Promise.all(Array.from({ length: 100 }, () => http({ method: 'GET', url })));
    const open = () => new Promise<number>((done) => server.getConnections((_, count) => done(count)));
    expect(await open()).toBeGreaterThan(1);
    await expect.poll(open, { timeout: 8_000 }).toBe(0);
    server.close();
  });
});

describe('over TLS', () => {
  const known = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...known, STAND_IN_CERTIFICATE]));
  afterAll(() => setDefaultCACertificates(known));
  const identity = { cert: STAND_IN_CERTIFICATE, key: STAND_IN_KEY };

  test('HTTP/2 is negotiated if the request asks for it', async () => {
    await using http = client();
    await using server = await serve(createSecureServer(identity));
    const url = `https://localhost:${server.port}/p`;
    for (let i = 0; i < 3; i += 1) expect(await http({ ...to(0), url })).toMatchObject({ status: 200 });
    expect([server.requests.length, server.sessions.length]).toEqual([3, 1]);
  });

  test("a tenant's host proves its own name, though the connection goes to the address that was checked", async () => {
    const guard = { resolve: async () => ({ kind: 'resolved', addresses: ['127.0.0.1'] }) as const };
    await using http = createHttpClient({ guard });
    const server = createHttpsServer(identity, (_, response) => response.end());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const request = { method: 'GET', isTenantHost: true } as const;
    const results = [
      await http({ ...request, url: `https://mail.test:${port}/` }),
      await http({ ...request, url: `https://other.test:${port}/` }),
    ];
    server.closeAllConnections();
    server.close();
    expect(results).toMatchObject([{ status: 200 }, { kind: 'not_sent', code: 'tls' }]);
  });

  /** Serves at the address, where TLS begins only after a time, in milliseconds. */
  async function serveLate(address: string, afterMs: number) {
    const server = createHttpsServer(identity, (_, response) => response.end());
    const sockets: Socket[] = [];
    const front = createTcpServer({ pauseOnConnect: true }, (socket) => {
      sockets.push(socket.on('error', () => {}));
      setTimeout(() => {
        server.emit('connection', socket);
        socket.resume();
      }, afterMs);
    });
    await new Promise<void>((resolve) => front.listen(0, address, resolve));
    return {
      port: (front.address() as AddressInfo).port,
      [Symbol.asyncDispose]: async () => {
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => front.close(resolve));
      },
    };
  }

  /** Listens in a thread that accepts no connection, and fills the queue of these: the next one is not answered. */
  async function listenWithoutAccepting(address: string, port: number): Promise<AsyncDisposable> {
    const listening = `const { parentPort } = require('node:worker_threads');
      require('node:net').createServer().listen({ host: '${address}', port: ${port}, backlog: 1 }, () => {
        parentPort.postMessage('listening');
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`;
    const thread = new Worker(listening, { eval: true });
    await once(thread, 'message');
    const queued: Socket[] = [];
    const isQueued = (): Promise<boolean> =>
      new Promise((resolve) => {
        const socket = connect(port, address, () => resolve(true)).on('error', () => resolve(false));
        queued.push(socket);
        setTimeout(() => resolve(false), 200);
      });
    while (await isQueued());
    return {
      [Symbol.asyncDispose]: async () => {
        for (const socket of queued) socket.destroy();
        await thread.terminate();
      },
    };
  }

  const guardOf = (...addresses: [string, ...string[]]) => ({
    resolve: async () => ({ kind: 'resolved', addresses }) as const,
  });

  test.each(['refuses connections', 'does not answer'])(
    "a tenant's host is called at its next address while the first one %s",
    async (first) => {
      await using http = createHttpClient({
        guard: guardOf('127.0.0.2', '127.0.0.1'),
        connectTimeoutMs: 1_500,
      });
      await using server = await serveLate('127.0.0.1', 0);
      await using _ =
        first === 'does not answer' ? await listenWithoutAccepting('127.0.0.2', server.port) : null;
      expect(
        await http({ method: 'GET', isTenantHost: true, url: `https://mail.test:${server.port}/` }),
      ).toMatchObject({ status: 200 });
    },
  );

  test.each([
    ['the first', guardOf('127.0.0.1', '127.0.0.2', '127.0.0.3')],
    ['the last, after two that refuse connections,', guardOf('127.0.0.3', '127.0.0.2', '127.0.0.1')],
  ])('%s of several addresses has the whole timeout for TLS', async (_, guard) => {
    await using http = createHttpClient({ guard, connectTimeoutMs: 3_000 });
    await using server = await serveLate('127.0.0.1', 1_700);
    expect(
      await http({ method: 'GET', isTenantHost: true, url: `https://mail.test:${server.port}/` }),
    ).toMatchObject({ status: 200 });
  });

  test('a connection to one of several addresses that begins no TLS is given up at the timeout', async () => {
    await using http = createHttpClient({ guard: guardOf('127.0.0.1', '127.0.0.2'), connectTimeoutMs: 500 });
    await using server = await serveLate('127.0.0.1', 5_000);
    const begunAt = performance.now();
    expect(
      await http({ method: 'GET', isTenantHost: true, url: `https://mail.test:${server.port}/` }),
    ).toEqual({ kind: 'not_sent', code: 'connect_timeout' });
    expect(performance.now() - begunAt).toBeLessThan(3_000);
  });

  test('a client certificate is used on its own connections, and the guard still applies', async () => {
    const certificate = {
      group: 'e1 1',
      certificate: STAND_IN_CERTIFICATE,
      key: STAND_IN_KEY,
    };
    let isOpen = true;
    const resolve = async () =>
      isOpen
        ? ({ kind: 'resolved', addresses: ['127.0.0.1'] } as const)
        : ({ kind: 'refused', code: 'egress_blocked' } as const);
    await using http = createHttpClient({ guard: { resolve } });
    const shown: string[] = [];
    const wanted = { ...identity, requestCert: true, rejectUnauthorized: false };
    const server = createHttpsServer(wanted, ({ socket }, response) => {
      shown.push((socket as TLSSocket).getPeerCertificate().fingerprint256 ?? 'none');
      response.end();
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const { port } = server.address() as AddressInfo;
    const request = { method: 'GET', isTenantHost: true, url: `https://mail.test:${port}/` } as const;
    const own = new X509Certificate(STAND_IN_CERTIFICATE).fingerprint256;
    await http(request);
    await http({ ...request, clientCertificate: certificate });
    await http({ ...request, clientCertificate: certificate });
    await http(request);
    expect(shown).toEqual(['none', own, own, 'none']);
    isOpen = false;
    expect(await http({ ...request, clientCertificate: { ...certificate, group: 'e1 2' } })).toEqual({
      kind: 'not_sent',
      code: 'egress_blocked',
    });
    server.closeAllConnections();
    server.close();
  });

  test('an invalid client certificate or a failing guard ends the call as not_sent', async () => {
    const resolve = async (host: string) => {
      if (host === 'broken.test') throw new Error('The guard is broken');
      return { kind: 'resolved', addresses: ['127.0.0.1'] } as const;
    };
    await using http = createHttpClient({ guard: { resolve } });
    const request = { method: 'GET', isTenantHost: true } as const;
    const cut = STAND_IN_CERTIFICATE.split('\n').toSpliced(2, 7).join('\n');
    const certificate = { group: 'e1 1', certificate: `${STAND_IN_CERTIFICATE}${cut}`, key: STAND_IN_KEY };
    expect([
      await http({ ...request, url: 'https://mail.test/', clientCertificate: certificate }),
      await http({ ...request, url: 'https://broken.test/' }),
    ]).toEqual([
      { kind: 'not_sent', code: 'tls' },
      { kind: 'not_sent', code: 'connect_failed' },
    ]);
  });
});
