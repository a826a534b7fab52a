import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { heapUsed } from '#test/support/heap-growth.ts';
import { createEgressGuard } from './egress-guard.ts';
import { createHttpClient, type HttpClient, type HttpClientOptions } from './http-client.ts';

type Origin = AsyncDisposable & { readonly origin: string; readonly connections: () => number };

async function listen(server: Server): Promise<Origin> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket.on('error', () => {}));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const serve = (listener: RequestListener) => listen(createHttpServer(listener));
/** Starts a server that sends exactly what the callback writes. */
const speak = (talk: (socket: Socket, request: string) => void) =>
  listen(createServer((socket) => socket.on('data', (data) => talk(socket, data.toString()))));

function client(options: HttpClientOptions = {}): HttpClient {
  return createHttpClient({ connectTimeoutMs: 5_000, totalDeadlineMs: 10_000, ...options });
}

const post = (url: string) => ({ method: 'POST', url, body: 'a=1' }) as const;

describe('a request', () => {
  test('with a binary body is sent byte for byte', async () => {
    await using http = client();
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const seen: Buffer[] = [];
    await using server = await serve((request, response) => {
      request.on('data', (chunk: Buffer) => seen.push(chunk)).on('end', () => response.end('ok'));
    });
    expect(await http({ method: 'POST', url: server.origin, body: bytes })).toMatchObject({ status: 200 });
    expect(Buffer.concat(seen)).toEqual(bytes);
  });
});

describe('a response', () => {
  test('has its status, lower-case headers and text', async () => {
    await using http = client({ userAgent: 'Despatch/1' });
    let seen: unknown;
    await using server = await serve((request, response) => {
      seen = {
        method: request.method,
        url: request.url,
        agent: request.headers['user-agent'],
        x: request.headers['x-a'],
      };
      request.resume().on('end', () => response.writeHead(418, { 'X-Two': ['a', 'b'] }).end('tea ✓'));
    });
    const result = await http({ ...post(`${server.origin}/p/q?r=s`), headers: { 'x-a': '1' } });
    expect(result).toMatchObject({
      kind: 'response',
      status: 418,
      headers: { 'x-two': 'a, b' },
      text: 'tea ✓',
    });
    expect(seen).toEqual({ method: 'POST', url: '/p/q?r=s', agent: 'Despatch/1', x: '1' });
  });

  test('that redirects is not followed', async () => {
    await using http = client();
    await using server = await serve((_, response) => response.writeHead(307, { location: '/else' }).end());
    expect(await http(post(server.origin))).toMatchObject({ kind: 'response', status: 307 });
    expect(server.connections()).toBe(1);
  });

  test('that is too large is cut at bodyBytesMax, and its connection is closed', async () => {
    await using http = client({ bodyBytesMax: 1_000 });
    await using server = await serve((_, response) => response.end('x'.repeat(1_000_000)));
    const result = await http(post(server.origin));
    expect(result).toMatchObject({ kind: 'response', status: 200, text: 'x'.repeat(1_000) });
    expect(await http(post(server.origin))).toMatchObject({ status: 200 });
    expect(server.connections()).toBe(2);
  });

  test('that arrives byte by byte uses little memory', async () => {
    const [CALLS, BYTES] = [10, 30_000];
    await using http = client();
    const sockets: Socket[] = [];
    await using server = await speak((socket) => {
      sockets.push(socket);
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      socket.write('1\r\nx\r\n'.repeat(BYTES));
    });
    const before = await heapUsed();
    const calls = Array.from({ length: CALLS }, () => http(post(server.origin)));
    // Only what the client has read leaves the server: the rest is in buffers of both.
    await expect.poll(() => sockets.filter(({ writableLength }) => writableLength === 0)).toHaveLength(CALLS);
    await sleep(500);
    expect((await heapUsed()) - before).toBeLessThan(8 * 1024 * 1024);
    for (const socket of sockets) socket.write('0\r\n\r\n');
    for (const { text } of (await Promise.all(calls)) as { text?: string }[])
      expect(text).toBe('x'.repeat(BYTES));
  });

  test('may be larger if the request sets bodyBytesMax', async () => {
    await using http = client({ bodyBytesMax: 1_000 });
    await using server = await serve((_, response) => response.end('x'.repeat(5_000)));
    const large = { ...post(server.origin), bodyBytesMax: 4_000 };
    expect(await http(large)).toMatchObject({ status: 200, text: 'x'.repeat(4_000) });
    expect(await http(post(server.origin))).toMatchObject({ status: 200, text: 'x'.repeat(1_000) });
  });

  test.each([
    ['stalls', (socket: Socket) => socket.write('HTTP/1.1 503 No\r\ncontent-length: 9\r\n\r\nab')],
    ['breaks off', (socket: Socket) => socket.end('HTTP/1.1 503 No\r\ncontent-length: 9\r\n\r\nab')],
  ])('whose body %s keeps its status', async (_, talk) => {
    await using http = client({ totalDeadlineMs: 500 });
    await using server = await speak(talk);
    expect(await http(post(server.origin))).toMatchObject({ kind: 'response', status: 503, text: 'ab' });
  });

  test('after an interim response is the final one', async () => {
    await using http = client();
    await using server = await speak((socket) =>
      socket.end('HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n'),
    );
    expect(await http(post(server.origin))).toMatchObject({ kind: 'response', status: 201 });
  });
});

describe('interim responses that were not asked for', () => {
  const FINAL = 'HTTP/1.1 201 Created\r\nx-a: b\r\ncontent-length: 13\r\n\r\nHTTP/1.1 100 ';
  const answer = {
    kind: 'response',
    status: 201,
    headers: { 'x-a': 'b', 'content-length': '13' },
    text: 'HTTP/1.1 100 ',
  };

  test.each([
    ['a 100', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['a 100 without a reason', 'HTTP/1.1 100\r\n\r\n'],
    ['a 100 with headers', 'HTTP/1.1 100 Continue\r\nx-a: c\r\ndate: 100\r\n\r\n'],
    ['a 102', 'HTTP/1.1 102 Processing\r\n\r\n'],
    [
      'several',
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n',
    ],
    ['several 103', 'HTTP/1.1 103 Hints\r\n\r\n'.repeat(20)],
  ])('are passed over on a kept connection, as %s', async (_, interim) => {
    await using http = client();
    await using server = await speak((socket) => socket.write(interim + FINAL));
    for (let i = 0; i < 4; i += 1) expect(await http(post(server.origin))).toEqual(answer);
    // The second call may begin before the first connection is free.
    expect(server.connections()).toBeLessThanOrEqual(2);
  });

  test('are passed over if each byte arrives alone, and from a tenant host', async () => {
    const guard = createEgressGuard({ allowCidrs: ['127.0.0.0/8'], ports: [], resolveHost: async () => [] });
    await using http = client({ guard });
    await using server = await speak((socket) => {
      void (async () => {
        for (const byte of `\r\nHTTP/1.1 100 Continue\r\nx: y\r\n\r\n${FINAL}`) {
          socket.setNoDelay().write(byte);
          await new Promise(setImmediate);
        }
      })();
    });
    for (let i = 0; i < 4; i += 1)
      expect(await http({ ...post(server.origin), isTenantHost: true })).toEqual(answer);
    expect(server.connections()).toBeLessThanOrEqual(2);
  });

  test('without end count as no answer, and so does a change of the protocol', async () => {
    await using http = client({ totalDeadlineMs: 500 });
    await using endless = await speak((socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 100 Continue\r\n\r\n'), 20);
      socket.on('close', () => clearInterval(timer));
    });
    expect(await http(post(endless.origin))).toEqual({ kind: 'ambiguous', code: 'timeout' });
    await using other = await speak((socket) =>
      socket.write('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    );
    expect(await http(post(other.origin))).toMatchObject({ kind: 'ambiguous' });
  });
});

describe('a request that never left', () => {
  test.each([
    ['an unknown host', 'http://nowhere.invalid/', 'dns'],
    ['a bad path', 'http://127.0.0.1:1/\r\nx', 'invalid_url'],
    ['no URL', 'nonsense', 'invalid_url'],
  ])('because of %s is not sent', async (_, url, code) => {
    await using http = client();
    expect(await http(post(url))).toEqual({ kind: 'not_sent', code });
  });

  test.each<[string, Record<string, string>]>([
    ['a letter beyond Latin-1 in a value', { 'x-a': 'ж' }],
    ['a control character in a value', { 'x-a': 'a\u0007' }],
    ['a second line in a value', { 'x-a': 'a\r\nx-b: c' }],
    ['a space in a name', { 'x a': 'b' }],
    ['an empty name', { '': 'b' }],
    ['a connection header', { 'Transfer-Encoding': 'chunked' }],
  ])('because of %s is not sent, and no connection is opened', async (_, headers) => {
    await using http = client();
    await using server = await serve((_request, response) => response.end());
    expect(await http({ ...post(server.origin), headers })).toEqual({
      kind: 'not_sent',
      code: 'invalid_request',
    });
    expect(server.connections()).toBe(0);
  });

  test('because the connection is refused is not sent', async () => {
    await using http = client();
    const server = await serve(() => {});
    await server[Symbol.asyncDispose]();
    expect(await http(post(server.origin))).toEqual({ kind: 'not_sent', code: 'connect_refused' });
  });

  test('because TLS fails or takes too long is not sent', async () => {
    await using http = client({ connectTimeoutMs: 500 });
    await using plain = await speak((socket) => socket.end('HTTP/1.1 400 Bad\r\n\r\n'));
    expect(await http(post(plain.origin.replace('http:', 'https:')))).toEqual({
      kind: 'not_sent',
      code: 'tls',
    });
    await using silent = await speak(() => {});
    expect(await http(post(silent.origin.replace('http:', 'https:')))).toEqual({
      kind: 'not_sent',
      code: 'connect_timeout',
    });
  });

  test('because its time ran out in the queue is not sent, not even later', async () => {
    await using http = client({ connectionsPerOrigin: 1 });
    const bodies: string[] = [];
    const held = Promise.withResolvers<() => void>();
    await using server = await serve((request, response) => {
      request.on('data', (chunk: Buffer) => void bodies.push(chunk.toString()));
      request.on('end', () => (bodies.length === 1 ? held.resolve(() => response.end()) : response.end()));
    });
    const first = http({ ...post(server.origin), body: 'first' });
    const release = await held.promise;
    expect(await http({ ...post(server.origin), body: 'second' }, AbortSignal.timeout(30))).toEqual({
      kind: 'not_sent',
      code: 'timeout',
    });
    release();
    expect(await first).toMatchObject({ status: 200 });
    expect(await http({ ...post(server.origin), body: 'third' })).toMatchObject({ status: 200 });
    expect(bodies).toEqual(['first', 'third']);
    expect(server.connections()).toBe(1);
  });

  test.each([
    ['signal had fired', () => AbortSignal.abort()],
    ['time was over', () => performance.now()],
  ])('because its %s before is not sent', async (_, until) => {
    await using http = client();
    expect(await http(post('http://127.0.0.1:1/'), until())).toEqual({
      kind: 'not_sent',
      code: 'timeout',
    });
  });
});

describe('a request that may have left', () => {
  test('without an answer in time is ambiguous, by deadline, signal or instant', async () => {
    await using http = client({ totalDeadlineMs: 500 });
    await using server = await speak(() => {});
    expect(await http(post(server.origin))).toEqual({ kind: 'ambiguous', code: 'timeout' });
    await using patient = client();
    for (const until of [() => AbortSignal.timeout(30), () => performance.now() + 30]) {
      expect(await patient(post(server.origin), until())).toEqual({ kind: 'ambiguous', code: 'timeout' });
    }
  });

  test.each([
    ['reset', (socket: Socket) => socket.resetAndDestroy()],
    ['closed', (socket: Socket) => socket.end()],
    ['answered with an invalid response', (socket: Socket) => socket.end('nonsense\r\n\r\n')],
    ['answered with truncated headers', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nx: ')],
  ])('and is then %s is ambiguous', async (_, talk) => {
    await using http = client();
    await using server = await speak(talk);
    expect(await http(post(server.origin))).toEqual({ kind: 'ambiguous', code: 'connection_reset' });
  });

  test('on a kept connection that the server resets is ambiguous and not sent again', async () => {
    await using http = client({ connectionsPerOrigin: 1 });
    let requests = 0;
    await using server = await speak((socket) => {
      requests += 1;
      if (requests === 1) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
      else socket.resetAndDestroy();
    });
    expect(await http(post(server.origin))).toMatchObject({ status: 200 });
    expect(await http(post(server.origin))).toEqual({ kind: 'ambiguous', code: 'connection_reset' });
    expect(requests).toBe(2);
    expect(server.connections()).toBe(1);
  });

  test('counts as not sent if it is a GET, which changes nothing', async () => {
    await using http = client();
    await using server = await speak((socket) => socket.end());
    expect(await http({ method: 'GET', url: server.origin })).toEqual({
      kind: 'not_sent',
      code: 'connection_reset',
    });
  });

  test('is ambiguous when the client is disposed, and a queued one is not sent', async () => {
    const http = client({ connectionsPerOrigin: 1 });
    const server = createHttpServer();
    await using origin = await listen(server);
    const first = http(post(origin.origin));
    await once(server, 'request');
    const second = http(post(origin.origin));
    await http[Symbol.asyncDispose]();
    expect((await first).kind).toBe('ambiguous');
    expect(await second).toEqual({ kind: 'not_sent', code: 'shutdown' });
  });
});

describe('a request to a host that a tenant chose', () => {
  const toTenant = (url: string) => ({ ...post(url), isTenantHost: true }) as const;
  const guardOf = (addresses: readonly string[], allowCidrs: readonly string[] = []) =>
    createEgressGuard({ allowCidrs, ports: [443], resolveHost: async () => addresses });

  test('is blocked if the guard refuses its name, address or port', async () => {
    await using http = client({ guard: guardOf(['127.0.0.1']) });
    await using server = await serve((_, response) => response.end());
    const { port } = new URL(server.origin);
    const names = [
      'inside.example',
      '127.0.0.1',
      '2130706433',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '169.254.169.254',
    ];
    for (const name of names) {
      expect(await http(toTenant(`http://${name}:${port}/`))).toEqual({
        kind: 'not_sent',
        code: 'egress_blocked',
      });
    }
    await using global = client({ guard: guardOf(['93.184.215.14']) });
    expect(await global(toTenant(`https://outside.example:${port}/`))).toMatchObject({
      code: 'egress_blocked',
    });
    expect(server.connections()).toBe(0);
  });

  test('is blocked without a guard, and the guard is not used for other hosts', async () => {
    await using http = client();
    await using server = await serve((_, response) => response.end());
    expect(await http(toTenant(server.origin))).toEqual({ kind: 'not_sent', code: 'egress_blocked' });
    await using guarded = client({ guard: guardOf(['127.0.0.1']) });
    // An open connection does not carry such a request either.
    expect(await guarded(post(server.origin))).toMatchObject({ status: 200 });
    expect(await guarded(toTenant(server.origin))).toMatchObject({ code: 'egress_blocked' });
    expect(server.connections()).toBe(1);
  });

  test('connects to the checked address with its own host name, and reuses the connection', async () => {
    const hosts: unknown[] = [];
    let asked = 0;
    const guard = createEgressGuard({
      allowCidrs: ['127.0.0.0/8'],
      ports: [],
      resolveHost: async () => ((asked += 1) === 1 ? ['127.0.0.1'] : ['10.0.0.1']),
    });
    await using http = client({ guard, connectionsPerOrigin: 1 });
    await using server = await serve((request, response) => {
      hosts.push(request.headers.host);
      request.resume().on('end', () => response.end());
    });
    const url = `http://gateway.example:${new URL(server.origin).port}`;
    expect(await http(toTenant(url))).toMatchObject({ status: 200 });
    expect(await http(toTenant(url))).toMatchObject({ status: 200 });
    expect([asked, server.connections(), hosts]).toEqual([1, 1, [url.slice(7), url.slice(7)]]);
  });

  test('whose name has no address is not sent', async () => {
    await using http = client({ guard: guardOf([]) });
    expect(await http(toTenant('https://unknown.example/'))).toEqual({ kind: 'not_sent', code: 'dns' });
  });
});
