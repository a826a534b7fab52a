import { expect, test } from 'vitest';
import { z } from 'zod';
import { silentLogger } from '#core/platform/logger.ts';
import { buildApp } from './app.ts';
import { defineRoute } from './routes-kit.ts';

async function setup() {
  const route = defineRoute({
    method: 'POST',
    path: '/v1/things/:id',
    summary: 'Make a thing',
    tag: 'Things',
    auth: { kind: 'none' },
    params: z.object({ id: z.string() }),
    response: z.object({ id: z.string() }),
    handler: async ({ params }) => ({ body: { id: params.id } }),
  });
  return buildApp(
    {
      authenticate: () => Promise.resolve({ caller: null }),
      log: silentLogger,
      metrics: { routeKnown: () => {}, requestStarted: () => {}, requestFinished: () => {} },
      fingerprintKey: Buffer.alloc(32),
      trustProxy: false,
      publicBaseUrl: 'http://api.test',
    },
    [route],
  );
}

test.each(['GET', 'DELETE', 'QUERY'])('%s is 405 with the methods that the path knows', async (method) => {
  await using app = await setup();
  const answer = await app.inject({ method: method as 'GET', url: '/v1/things/1' });
  expect(answer.statusCode).toBe(405);
  expect(answer.headers['allow']).toBe('OPTIONS, POST');
  expect(answer.json()).toMatchObject({ statusCode: 405, code: 'method_not_allowed', path: '/v1/things/1' });
});

test.each([
  ['nothing', {}],
  ['a broken body', { headers: { 'content-type': 'application/json' }, payload: '{"a"' }],
  ['a body of another kind', { headers: { 'content-type': 'text/plain' }, payload: 'a' }],
])('an unknown path is 404, with %s', async (_name, request) => {
  await using app = await setup();
  const answer = await app.inject({ method: 'POST', url: '/v1/nothing', ...request });
  expect(answer.statusCode).toBe(404);
  expect(answer.json()).toMatchObject({ code: 'route_not_found' });
});
