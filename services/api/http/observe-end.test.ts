import { createSecretKey } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { AppError } from '#core/domain/fault/app-error.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { createApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import { buildApp } from '../app.ts';
import type { HttpMetrics } from './http-metrics.ts';
import { defineRoute } from './routes/define-route.ts';

type Answered = Parameters<HttpMetrics['requestAnswered']>[0];
type Finished = Parameters<HttpMetrics['requestFinished']>[0];

/** Starts an api with one route that answers when the test says so. */
async function setup() {
  const lines: Record<string, unknown>[] = [];
  const finished: Finished[] = [];
  const answered: Answered[] = [];
  const begun = Promise.withResolvers<void>();
  const verdict = Promise.withResolvers<void>();
  const metrics = createApiMetrics();
  const app = await buildApp(
    {
      readmit: (caller) => caller,
      authenticate: () => Promise.resolve({ caller: null }),
      log: createLogger({
        level: 'info',
        component: 'api',
        destination: { write: (line: string) => void lines.push(JSON.parse(line)) },
      }),
      metrics: {
        ...metrics,
        requestAnswered: (request) => void answered.push(request),
        requestFinished(request) {
          finished.push(request);
          metrics.requestFinished(request);
        },
      },
      fingerprintKey: createSecretKey(Buffer.alloc(32)),
      trustProxy: false,
      publicBaseUrl: 'http://api.test',
    },
    [
      defineRoute({
        method: 'POST',
        path: '/v1/things',
        operation: 'makeThing',
        summary: 'Make a thing',
        description: 'For this test.',
        tag: 'Messages',
        auth: { kind: 'none' },
        body: z.object({ name: z.string().optional() }),
        async handler() {
          begun.resolve();
          await verdict.promise;
          return { body: undefined };
        },
      }),
    ],
  );
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as { port: number };
  return {
    lines,
    finished,
    answered,
    begun: begun.promise,
    verdict,
    requests: () => lines.filter(({ event }) => event === 'request'),
    async inFlight() {
      const text = await metrics.registry.metrics();
      return Number(/^despatch_http_requests_in_flight (\d+)/m.exec(text)?.[1]);
    },
    async send(body: string, length = body.length) {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      const head = `POST /v1/things HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${length}`;
      socket.write(`${head}\r\n\r\n${body}`);
      return socket;
    },
    async [Symbol.asyncDispose]() {
      verdict.resolve();
      await app.close();
    },
  };
}

test('a client that disconnects during the handler is counted once, as 499 with a duration', async () => {
  await using api = await setup();
  const socket = await api.send('{}');
  await api.begun;
  expect(await api.inFlight()).toBe(1);
  socket.destroy();
  await expect.poll(api.inFlight).toBe(0);
  expect(api.finished).toEqual([
    { method: 'POST', route: '/v1/things', statusCode: 499, seconds: expect.any(Number) },
  ]);
  expect(api.requests()).toMatchObject([{ method: 'POST', route: '/v1/things', statusCode: 499 }]);

  api.verdict.resolve();
  await expect.poll(() => api.answered.length).toBe(1);
  expect(api.finished).toHaveLength(1);
  expect(api.requests()).toHaveLength(1);
});

test('a client that disconnects during its body is counted once, as 499 without a duration', async () => {
  await using api = await setup();
  const socket = await api.send('{"name": "', 1_000);
  await expect.poll(api.inFlight).toBe(1);
  socket.destroy();
  await expect.poll(api.inFlight).toBe(0);
  expect(api.finished).toEqual([{ method: 'POST', route: '/v1/things', statusCode: 499, seconds: null }]);
  await expect.poll(api.requests).toMatchObject([{ statusCode: 499 }]);
});

test('the time that a client takes to send its body is in the log line and not in the duration', async () => {
  await using api = await setup();
  api.verdict.resolve();
  const socket = await api.send('{"name"', 14);
  socket.resume();
  await expect.poll(api.inFlight).toBe(1);
  await sleep(300);
  socket.write(':"ann"}');
  await expect.poll(() => api.finished).toMatchObject([{ statusCode: 204, seconds: expect.any(Number) }]);
  expect(api.finished[0]?.seconds).toBeLessThan(0.25);
  const [line] = api.requests();
  expect(line).toMatchObject({ durationMs: expect.any(Number), uploadMs: expect.any(Number) });
  expect(line?.['durationMs']).toBeGreaterThanOrEqual(295);
  expect(line?.['uploadMs']).toBeGreaterThanOrEqual(250);
  socket.destroy();
});

test('a refusal after the client has disconnected is still reported to requestAnswered', async () => {
  await using api = await setup();
  const socket = await api.send('{}');
  await api.begun;
  socket.destroy();
  await expect.poll(() => api.finished.length).toBe(1);
  api.verdict.reject(new AppError('invalid_state'));
  await expect.poll(() => api.answered).toMatchObject([{ statusCode: 409, errorCode: 'invalid_state' }]);
});

test('a refusal is counted without a duration, since many quick ones would hide slow answers', async () => {
  await using api = await setup();
  const socket = await api.send('{}');
  socket.resume();
  await api.begun;
  api.verdict.reject(new AppError('invalid_state'));
  await expect.poll(() => api.finished).toMatchObject([{ statusCode: 409, seconds: null }]);
  socket.destroy();
});

test('a 503 is counted with its duration', async () => {
  await using api = await setup();
  const socket = await api.send('{}');
  socket.resume();
  await api.begun;
  api.verdict.reject(new AppError('dependency_unavailable'));
  await expect.poll(() => api.finished).toMatchObject([{ statusCode: 503, seconds: expect.any(Number) }]);
  socket.destroy();
});

test('an answered request is counted once with its status code, even if its connection closes', async () => {
  await using api = await setup();
  api.verdict.resolve();
  const socket = await api.send('{}');
  socket.resume();
  await expect.poll(() => api.finished.length).toBe(1);
  socket.destroy();
  await once(socket, 'close');
  await expect.poll(api.requests).toMatchObject([{ statusCode: 204 }]);
  expect(api.finished).toMatchObject([{ statusCode: 204 }]);
  expect(await api.inFlight()).toBe(0);
});
