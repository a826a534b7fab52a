import { createSecretKey } from 'node:crypto';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { createLogger, silentLogger, type Logger } from '#core/platform/telemetry/logger.ts';
import type { UserId } from '#core/domain/storage/ids.ts';
import { AppError, unauthenticated } from '#core/domain/fault/app-error.ts';
import { buildApp } from './app.ts';
import type { Authenticate, RouteAuth } from './auth/auth.ts';
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from './http/admission/http-limits.ts';
import { warningsField } from './http/routes/request-warnings.ts';
import { defineRoute } from './http/routes/define-route.ts';
import type { RouteModule } from './http/routes/route.ts';

async function setup(
  limits?: HttpLimits,
  more: readonly RouteModule[] = [],
  authenticate: Authenticate = () => Promise.resolve({ caller: null }),
  log: Logger = silentLogger,
) {
  const route = defineRoute({
    method: 'POST',
    path: '/v1/things/:id',
    operation: 'makeThing',
    summary: 'Make a thing',
    description: 'For this test.',
    tag: 'Messages',
    auth: { kind: 'none' },
    params: z.object({ id: z.string() }),
    response: z.object({ id: z.string() }),
    handler: async ({ params }) => ({ body: { id: params.id } }),
  });
  return buildApp(
    {
      authenticate,
      readmit: (caller) => caller,
      log,
      metrics: {
        routeKnown: () => {},
        requestMemory: { from: () => {} },
        bodyRefused: () => {},
        requestStarted: () => {},
        requestAnswered: () => {},
        requestFinished: () => {},
      },
      fingerprintKey: createSecretKey(Buffer.alloc(32)),
      trustProxy: false,
      publicBaseUrl: 'http://api.test',
      ...(limits === undefined ? {} : { limits }),
    },
    [route, ...more],
  );
}

test.each([
  ['1', 200],
  ['%ff', 400],
  ['a'.repeat(10_000), 404],
  ['1/2', 404],
])('an answer has the headers of all answers, also if its path is refused: %#', async (end, status) => {
  await using app = await setup();
  const answer = await app.inject({ method: 'POST', url: `/v1/things/${end}` });
  expect(answer.statusCode).toBe(status);
  expect(answer.headers).toMatchObject({
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.any(String),
  });
});

test.each<[RouteAuth, string]>([
  [{ kind: 'key', scope: 'messages:send' }, 'ApiKey header="X-Service-Key"'],
  [{ kind: 'either', scope: 'messages:send', role: 'viewer' }, 'Bearer, ApiKey header="X-Service-Key"'],
  [{ kind: 'bearer', role: 'viewer' }, 'Bearer'],
  [{ kind: 'user' }, 'Bearer'],
])('each 401 names the credentials that the route accepts: %o', async (auth, challenge) => {
  const route = defineRoute({
    method: 'GET',
    path: '/v1/closed',
    operation: 'getClosed',
    summary: 'Get nothing',
    description: 'For this test.',
    tag: 'Messages',
    auth,
    handler: async () => ({ body: undefined }),
  });
  for (const refusal of [unauthenticated('no credentials'), new AppError('api_key_expired')]) {
    await using app = await setup(undefined, [route], () => {
      throw refusal;
    });
    const { statusCode, headers } = await app.inject('/v1/closed');
    expect([statusCode, headers['www-authenticate']]).toEqual([401, challenge]);
  }
});

test.each(['GET', 'DELETE', 'QUERY'])(
  '%s on a path without that method is answered 405 with the Allow header',
  async (method) => {
    await using app = await setup();
    const answer = await app.inject({ method: method as 'GET', url: '/v1/things/1' });
    expect(answer.statusCode).toBe(405);
    expect(answer.headers['allow']).toBe('OPTIONS, POST');
    expect(answer.json()).toMatchObject({
      statusCode: 405,
      code: 'method_not_allowed',
      path: '/v1/things/1',
    });
  },
);

test.each([
  ['no body', {}],
  ['malformed JSON', { headers: { 'content-type': 'application/json' }, payload: '{"a"' }],
  ['an unsupported content type', { headers: { 'content-type': 'text/plain' }, payload: 'a' }],
])('an unknown path is answered 404 for a request with %s', async (_name, request) => {
  await using app = await setup();
  const answer = await app.inject({ method: 'POST', url: '/v1/nothing', ...request });
  expect(answer.statusCode).toBe(404);
  expect(answer.json()).toMatchObject({ code: 'route_not_found' });
});

test.each(['GET', 'POST'] as const)(
  '%s on a path that ends where a parameter should be is answered 404 as an unknown path',
  async (method) => {
    await using app = await setup();
    const answer = await app.inject({ method, url: '/v1/things/' });
    expect(answer.statusCode).toBe(404);
    expect(answer.json()).toMatchObject({ code: 'route_not_found', path: '/v1/things/' });
  },
);

test('responses that a client does not read count against the memory budget of its caller', async () => {
  const MIB = 1024 * 1024;
  const long = defineRoute({
    method: 'GET',
    path: '/v1/long',
    operation: 'getLong',
    summary: 'Get a lot',
    description: 'For this test.',
    tag: 'Messages',
    auth: { kind: 'user' },
    response: z.object({ ...warningsField, text: z.string() }),
    // More than the socket buffers hold.
    handler: async () => ({ body: { text: 'a'.repeat(20 * MIB) } }),
  });
  const user = { issuer: 'i', email: null, name: null };
  const callers = ['a', 'b'].map((id) => ({ ...user, id: id as UserId, subject: id }));
  await using app = await setup(
    { ...DEFAULT_HTTP_LIMITS, memoryBytesMax: 100 * MIB, loopDelayMaxMs: 0 },
    [long],
    (_, { authorization }) => {
      const found = callers.find(({ id }) => id === authorization);
      return { caller: found === undefined ? null : { kind: 'user', user: found, isPlatformAdmin: false } };
    },
  );
  const origin = await app.listen({ port: 0, host: '127.0.0.1' });
  const ending = new AbortController();
  const ask = (authorization: string): Promise<number> =>
    fetch(`${origin}/v1/long`, { headers: { authorization }, signal: ending.signal }).then(
      ({ status }) => status,
    );
  const statuses = [await ask('a'), await ask('a'), await ask('a'), await ask('b')];
  expect(statuses).toEqual([200, 200, 503, 200]);
  ending.abort();
  const askAndGo = async (): Promise<number> => {
    const { status, body } = await fetch(`${origin}/v1/long`, { headers: { authorization: 'a' } });
    await body?.cancel();
    return status;
  };
  await expect.poll(askAndGo).toBe(200);
  app.server.closeAllConnections();
});

test('a delayed event loop answers 503 with Retry-After until it recovers', async () => {
  await using app = await setup({ ...DEFAULT_HTTP_LIMITS, loopDelayMaxMs: 100 });
  const ask = () => app.inject({ method: 'POST', url: '/v1/things/1' });
  await expect.poll(async () => (await ask()).statusCode).toBe(200);
  const busy = setInterval(() => {
    const until = performance.now() + 400;
    while (performance.now() < until);
  }, 10);
  try {
    await expect.poll(async () => (await ask()).statusCode).toBe(503);
    const answer = await ask();
    expect(answer.json()).toMatchObject({ statusCode: 503, code: 'dependency_unavailable' });
    expect(answer.headers['retry-after']).toBe('5');
  } finally {
    clearInterval(busy);
  }
  await expect.poll(async () => (await ask()).statusCode).toBe(200);
});

test('the fingerprint covers only the fields sent, so two releases compute the same one', async () => {
  const release = (body: z.ZodObject): Promise<Awaited<ReturnType<typeof setup>>> =>
    setup(undefined, [
      defineRoute({
        method: 'POST',
        path: '/v1/notes',
        operation: 'makeNote',
        summary: 'Make a note',
        description: 'For this test.',
        tag: 'Messages',
        auth: { kind: 'none' },
        body: body.meta({ id: 'MakeNote', description: 'A note.', examples: [{ noteText: 'a' }] }),
        idempotent: true,
        response: z.object({ print: z.string().optional(), ...warningsField }),
        handler: async ({ idempotency }) => {
          const print = idempotency?.fingerprint.toString('hex');
          return { body: print === undefined ? {} : { print } };
        },
      }),
    ]);
  const idempotencyKey = z.string().optional();
  await using older = await release(z.object({ noteText: z.string(), idempotencyKey }));
  await using newer = await release(
    z.object({
      noteText: z.string().transform((text) => text.toUpperCase()),
      color: z.string().default('red'),
      idempotencyKey,
    }),
  );
  const print = async (app: typeof older, body: object): Promise<string> => {
    const answer = await app.inject({
      method: 'POST',
      url: '/v1/notes',
      headers: { 'idempotency-key': 'k' },
      payload: body,
    });
    expect(answer.statusCode).toBe(200);
    return answer.json().print;
  };
  const first = await print(older, { noteText: 'a' });
  expect(first).toMatch(/^[0-9a-f]{64}$/);
  expect(await print(newer, { noteText: 'a' })).toBe(first);
  expect(await print(newer, { note_text: 'a', color: null, idempotency_key: 'k' })).toBe(first);
  expect(await print(newer, { noteText: 'b' })).not.toBe(first);
  expect(await print(newer, { noteText: 'a', color: 'blue' })).not.toBe(first);
});

test.each([
  ['as a whole', { replayed: true }],
  ['in part', { hasStored: true }],
])(
  'an answer that another release stored %s is sent as it is, with fields that this release lacks or requires',
  async (_, stored) => {
    const body = { color: 'red', parts: [{ size: 1 }] };
    await using app = await setup(undefined, [
      defineRoute({
        method: 'POST',
        path: '/v1/notes',
        operation: 'makeNote',
        summary: 'Make a note',
        description: 'For this test.',
        tag: 'Messages',
        auth: { kind: 'none' },
        status: 201,
        response: z.object({ id: z.string(), parts: z.array(z.object({ name: z.string() })) }),
        handler: async () => ({ body: body as never, ...stored }),
      }),
    ]);
    const answer = await app.inject({ method: 'POST', url: '/v1/notes' });
    expect([answer.statusCode, answer.body]).toEqual([201, JSON.stringify(body)]);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
  },
);

test('requests that fail because the database is away share one line, and keep their own', async () => {
  const messages: string[] = [];
  const log = createLogger({
    level: 'info',
    component: 'api',
    destination: { write: (line) => void messages.push((JSON.parse(line) as { msg: string }).msg) },
  });
  const send = defineRoute({
    method: 'POST',
    path: '/v1/sends',
    operation: 'send',
    summary: 'Send',
    description: 'For this test.',
    tag: 'Messages',
    auth: { kind: 'none' },
    response: z.object({}),
    handler: () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })),
  });
  await using app = await setup(undefined, [send], undefined, log);
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => app.inject({ method: 'POST', url: '/v1/sends' })),
  );
  expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([503]));
  expect(messages.filter((msg) => msg === 'Request')).toHaveLength(100);
  expect(messages.filter((msg) => msg === 'Request failed')).toHaveLength(1);
});
