import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { beginSpan, natsAttributes, startTelemetry, traceFields, withSpan } from './telemetry.ts';

type ReceivedSpan = {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: readonly { key: string; value: Record<string, unknown> }[];
  readonly links?: readonly { traceId: string; spanId: string }[];
  readonly status: { code?: number; message?: string };
};

/** Starts a collector that keeps the received spans. */
async function startCollector() {
  const spans: ReceivedSpan[] = [];
  const services = new Set<unknown>();
  const texts: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      texts.push(`${request.method} ${request.url} ${text}`);
      const sent = JSON.parse(text) as {
        resourceSpans: {
          resource: { attributes: { key: string; value: { stringValue?: string } }[] };
          scopeSpans: { spans: ReceivedSpan[] }[];
        }[];
      };
      for (const { resource, scopeSpans } of sent.resourceSpans) {
        services.add(resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue);
        spans.push(...scopeSpans.flatMap((scope) => scope.spans));
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    services,
    texts,
    named: (name: string) => {
      const span = spans.find((one) => one.name === name);
      if (span === undefined)
        throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(', ')}`);
      return span;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Runs the work with tracing on, and returns when the collector has received all spans. */
async function traced(work: () => unknown, sampleRatio = 1) {
  const collector = await startCollector();
  const telemetry = await startTelemetry({
    endpoint: collector.endpoint,
    serviceName: 'despatch-api',
    sampleRatio,
  });
  try {
    await work();
  } finally {
    await telemetry[Symbol.asyncDispose]();
    await collector[Symbol.asyncDispose]();
  }
  return collector;
}

const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

test('without an endpoint, every helper runs its work and traces nothing', async () => {
  await using _ = await startTelemetry({ endpoint: undefined, serviceName: 'x', sampleRatio: 1 });
  expect(withSpan('a', { parent: CALLER }, (span) => span.traceparent)).toBeUndefined();
  expect(await withSpan('b', {}, () => Promise.resolve(7))).toBe(7);
  const span = beginSpan('c');
  span.set({ a: 1 });
  span.fail('x');
  expect(span.run(() => traceFields())).toEqual({});
  span.end();
});

test('one trace includes the request, the wake-up and the provider call', async () => {
  let stored: string | undefined;
  const { named, services, spans } = await traced(async () => {
    const server = beginSpan('POST /v1/messages', { kind: 'server', parent: CALLER });
    await server.run(async () => {
      await Promise.resolve();
      stored = server.traceparent;
      withSpan(
        'send despatch.wake',
        { kind: 'producer', attributes: natsAttributes('send', 'despatch.wake') },
        () => undefined,
      );
    });
    server.end();
    await withSpan('process despatch.wake', { kind: 'consumer', parent: stored }, async () => {
      await withSpan('POST twilio', { kind: 'client' }, () => Promise.resolve());
    });
  });
  expect(spans).toHaveLength(4);
  expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set(['0af7651916cd43dd8448eb211c80319c']));
  const request = named('POST /v1/messages');
  expect(request.parentSpanId).toBe('b7ad6b7169203331');
  expect(stored).toBe(`00-${request.traceId}-${request.spanId}-01`);
  expect(named('send despatch.wake').parentSpanId).toBe(request.spanId);
  const consumed = named('process despatch.wake');
  expect(consumed.parentSpanId).toBe(request.spanId);
  expect(named('POST twilio').parentSpanId).toBe(consumed.spanId);
  expect(
    [request, named('POST twilio'), named('send despatch.wake'), consumed].map((span) => span.kind),
  ).toEqual([2, 3, 4, 5]);
  expect(named('send despatch.wake').attributes).toContainEqual({
    key: 'messaging.system',
    value: { stringValue: 'nats' },
  });
  expect(services).toEqual(new Set(['despatch-api']));
});

test('a retry can start its own trace, linked to the first', async () => {
  const { named } = await traced(() => {
    withSpan('outer', {}, () => {
      withSpan('retry', { root: true, links: [CALLER, 'nonsense'] }, () => undefined);
    });
  });
  const retry = named('retry');
  expect(retry.traceId).not.toBe(named('outer').traceId);
  expect(retry.parentSpanId ?? '').toBe('');
  expect(retry.links).toEqual([
    expect.objectContaining({ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }),
  ]);
});

test('a failed span has the name of the error, not its text, and the error is rethrown', async () => {
  const { named, texts } = await traced(async () => {
    await expect(withSpan('async', {}, () => Promise.reject(new TypeError('canary-1')))).rejects.toThrow(
      'canary-1',
    );
    expect(() =>
      withSpan('sync', {}, () => {
        throw new RangeError('canary-2');
      }),
    ).toThrow('canary-2');
    withSpan('told', {}, (span) => span.fail('http_503'));
  });
  const typeOf = (name: string) => named(name).attributes.find(({ key }) => key === 'error.type')?.value;
  expect([typeOf('async'), typeOf('sync'), typeOf('told')]).toEqual([
    { stringValue: 'TypeError' },
    { stringValue: 'RangeError' },
    { stringValue: 'http_503' },
  ]);
  expect(named('async').status.code).toBe(2);
  expect(texts.join('')).not.toContain('canary');
});

test('the sample ratio applies to new traces, and a stored decision to the work that continues its trace', async () => {
  const { spans } = await traced(() => {
    withSpan('new', {}, (span) => expect(span.traceparent).toMatch(/-00$/));
    withSpan('sampled', { parent: CALLER }, () => undefined);
    withSpan('not sampled', { parent: CALLER.replace(/01$/, '00') }, () => undefined);
  }, 0);
  expect(spans.map((span) => span.name)).toEqual(['sampled']);
});

test('the sample ratio applies to requests, whatever their traceparent says', async () => {
  const decisions = new Set<string | undefined>();
  const { spans } = await traced(() => {
    for (let i = 0; i < 200; i += 1) {
      const span = beginSpan('request', { kind: 'server', parent: CALLER });
      // What the request causes keeps the request's decision.
      span.run(() =>
        withSpan('caused', {}, ({ traceparent }) =>
          expect(traceparent?.at(-1)).toBe(span.traceparent?.at(-1)),
        ),
      );
      decisions.add(span.traceparent?.slice(-2));
      span.end();
    }
  }, 0.5);
  expect(decisions).toEqual(new Set(['00', '01']));
  expect(spans.length).toBeLessThan(400);
  const all = await traced(
    () => beginSpan('a', { kind: 'server', parent: CALLER.replace(/01$/, '00') }).end(),
    1,
  );
  expect(all.spans).toHaveLength(1);
  const none = await traced(() => beginSpan('a', { kind: 'server', parent: CALLER }).end(), 0);
  expect(none.spans).toEqual([]);
});

test.each([
  '',
  'nonsense',
  '00-00000000000000000000000000000000-b7ad6b7169203331-01',
  '00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01',
  'ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  '00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01',
  `${CALLER}0`,
])('the malformed traceparent %o is ignored', async (parent) => {
  const { named } = await traced(() => withSpan('span', { parent }, () => undefined));
  expect(named('span').parentSpanId ?? '').toBe('');
});

test('log lines get the ids of the trace they are written in', async () => {
  let fields: unknown;
  const { named } = await traced(() =>
    withSpan('span', {}, async () => {
      await Promise.resolve();
      fields = traceFields();
    }),
  );
  expect(fields).toEqual({ traceId: named('span').traceId, spanId: named('span').spanId });
});

test('an unreachable collector delays the shutdown by less than six seconds', async () => {
  const telemetry = await startTelemetry({
    endpoint: 'http://127.0.0.1:9',
    serviceName: 'x',
    sampleRatio: 1,
  });
  expect(withSpan('span', {}, () => 7)).toBe(7);
  const started = performance.now();
  await telemetry[Symbol.asyncDispose]();
  // The exporter by itself would retry for ten seconds.
  expect(performance.now() - started).toBeLessThan(6_000);
});
