import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { CONNECTIONS_MAX, EXPOSITION_KEPT_MS, openHealthServer, type HealthOptions } from './health.ts';
import { createApiMetrics } from '../telemetry/api-metrics.ts';
import { collectProcessMetrics } from '../telemetry/process-metrics.ts';
import { METRIC_OUTCOMES, GIVEN_UP_REASONS } from '../telemetry/worker-labels.ts';
import { createWorkerMetrics } from '../telemetry/worker-metrics.ts';
import { SAMPLE_DEADLINE_MS } from '../telemetry/sampled-metrics.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';

async function setup(options: Partial<HealthOptions> = {}) {
  const server = await openHealthServer({
    host: '127.0.0.1',
    port: 0,
    metrics: createApiMetrics(),
    ready: () => ({ failing: [] }),
    ...options,
  });
  const get = (path: string, method = 'GET') => fetch(`http://127.0.0.1:${server.port}${path}`, { method });
  return { get, port: server.port, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

test('a live and ready process answers 200 on /healthz and /readyz', async () => {
  await using b = await setup();
  const live = await b.get('/healthz');
  expect([live.status, await live.json()]).toEqual([200, { status: 'ok' }]);
  const ready = await b.get('/readyz?verbose');
  expect([ready.status, await ready.json()]).toEqual([200, { status: 'ready' }]);
});

test('a process that is not ready lists its failing checks and stays live', async () => {
  await using b = await setup({ ready: () => Promise.resolve({ failing: ['database', 'keyring'] }) });
  const ready = await b.get('/readyz');
  expect([ready.status, await ready.json()]).toEqual([
    503,
    { status: 'not_ready', failing: ['database', 'keyring'] },
  ]);
  expect((await b.get('/healthz')).status).toBe(200);
});

test.each<[string, HealthOptions['ready']]>([
  [
    'throws',
    () => {
      throw new Error('no');
    },
  ],
  ['rejects', () => Promise.reject(new Error('no'))],
  ['never answers', () => new Promise(() => undefined)],
])('a check that %s means not ready', async (_, ready) => {
  await using b = await setup({ ready });
  const answer = await b.get('/readyz');
  expect([answer.status, await answer.json()]).toEqual([
    503,
    { status: 'not_ready', failing: ['readiness_check'] },
  ]);
});

test('the metrics show whether the process is ready, also where a check never answers', async () => {
  const answers = { ready: [], ending: ['ending'] } as const;
  let answer: keyof typeof answers | 'hanging' = 'ready';
  let nowMs = 0;
  await using b = await setup({
    ready: () => (answer === 'hanging' ? new Promise(() => undefined) : { failing: answers[answer] }),
    monotonicMs: () => nowMs,
  });
  const shown = async () => {
    nowMs += EXPOSITION_KEPT_MS;
    return /^despatch_ready .*$/m.exec(await (await b.get('/metrics')).text())?.[0];
  };
  expect(await shown()).toBe('despatch_ready 1');
  answer = 'ending';
  expect(await shown()).toBe('despatch_ready 0');
  answer = 'hanging';
  expect(await shown()).toBe('despatch_ready 0');
});

test('a process that is not live answers 503 on /healthz', async () => {
  await using b = await setup({ live: () => false });
  expect((await b.get('/healthz')).status).toBe(503);
});

test('other paths and methods are refused, and HEAD has no body', async () => {
  await using b = await setup();
  expect((await b.get('/')).status).toBe(404);
  expect((await b.get('/metrics', 'POST')).status).toBe(405);
  const head = await b.get('/readyz', 'HEAD');
  expect([head.status, await head.text()]).toEqual([200, '']);
});

test('failing metrics are answered 500 without the reason', async () => {
  const { ready } = createApiMetrics();
  await using b = await setup({ metrics: { ready, expose: () => Promise.reject(new Error('canary')) } });
  const answer = await b.get('/metrics');
  expect([answer.status, await answer.text()]).toEqual([500, 'failed\n']);
});

test('100 concurrent scrapes read each source of a gauge once', async () => {
  const metrics = createWorkerMetrics();
  const pending = Promise.withResolvers<number>();
  const reads = { backlog: 0, partitions: 0 };
  metrics.backlog.from(() => {
    reads.backlog += 1;
    return pending.promise;
  });
  metrics.partitionsDue.from(() => {
    reads.partitions += 1;
    return [];
  });
  // The text is kept for as long as the test takes, however busy the machine is.
  await using b = await setup({ metrics, monotonicMs: () => 0 });
  const scrapes = Promise.all(Array.from({ length: 100 }, () => b.get('/metrics')));
  await vi.waitFor(() => expect(reads.backlog).toBeGreaterThan(0));
  pending.resolve(5);
  for (const answer of await scrapes)
    expect(await answer.text()).toContain('\ndespatch_backlog_messages 5\n');
  expect(reads).toEqual({ backlog: 1, partitions: 1 });
});

test('a scrape gets a fresh text when that of the previous run is no longer kept', async () => {
  let now = 1_000;
  let runs = 0;
  const expose = () => Promise.resolve({ contentType: 'text/plain', text: `run ${++runs}` });
  const { ready } = createApiMetrics();
  await using b = await setup({ metrics: { ready, expose }, monotonicMs: () => now });
  const scrape = async () => (await b.get('/metrics')).text();
  expect(await scrape()).toBe('run 1');
  now += EXPOSITION_KEPT_MS - 1;
  expect(await scrape()).toBe('run 1');
  now += 1;
  expect(await scrape()).toBe('run 2');
});

test('a connection above the limit closes the oldest one, so that a probe is always answered', async () => {
  await using b = await setup();
  const opened: Socket[] = [];
  for (let i = 0; i < CONNECTIONS_MAX; i += 1) {
    const socket = connect(b.port, '127.0.0.1');
    opened.push(socket);
    await once(socket, 'connect');
  }
  const [oldest] = opened;
  if (oldest === undefined) throw new Error('No connection was opened');
  const closed = once(oldest.resume(), 'close');
  expect((await b.get('/healthz')).status).toBe(200);
  await closed;
  expect(opened.filter((socket) => socket.closed)).toEqual([oldest]);
  for (const socket of opened) socket.destroy();
});

test('the api exposes its metrics, and bounded series start at 0', async () => {
  const metrics = createApiMetrics();
  collectProcessMetrics(metrics, { component: 'api', version: '1.2.3' });
  await using b = await setup({ metrics });
  metrics.requestStarted();
  metrics.requestStarted();
  metrics.requestFinished({ method: 'POST', route: '/v1/messages', statusCode: 202, seconds: 0.004 });
  metrics.accepted('sms', 'tenant-1');
  metrics.rejected('quota', 'tenant-1');
  metrics.routeKnown({ method: 'GET', route: '/v1/me', codes: [200, 500] });
  metrics.database.known('accept');
  metrics.natsConnection(true);
  metrics.vaultTokenExpires(1_700_000_000);
  metrics.vaultRequest({ op: 'encrypt', code: '200', seconds: 0.002 });
  const answer = await b.get('/metrics');
  expect(answer.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
  const lines = (await answer.text()).split('\n');
  for (const line of [
    'despatch_http_requests_total{method="POST",route="/v1/messages",code="202"} 1',
    'despatch_http_request_duration_seconds_bucket{le="0.005",method="POST",route="/v1/messages"} 1',
    'despatch_http_requests_in_flight 1',
    'despatch_messages_accepted_total{channel="sms"} 1',
    'despatch_messages_accepted_total{channel="whatsapp"} 0',
    'despatch_messages_rejected_total{reason="quota"} 1',
    'despatch_messages_rejected_total{reason="dependency"} 0',
    'despatch_idempotency_replays_total 0',
    'despatch_publish_errors_total 0',
    'despatch_nats_connected 1',
    'despatch_vault_token_expiry_timestamp_seconds 1700000000',
    'despatch_vault_requests_total{op="encrypt",code="200"} 1',
    'despatch_vault_requests_total{op="encrypt",code="network"} 0',
    'despatch_vault_requests_total{op="login",code="403"} 0',
    'despatch_http_requests_total{method="GET",route="/v1/me",code="500"} 0',
    'despatch_http_request_duration_seconds_count{method="GET",route="/v1/me"} 0',
    'despatch_db_errors_total{op="accept"} 0',
    'despatch_db_query_duration_seconds_count{op="accept"} 0',
    `despatch_build_info{component="api",version="1.2.3",node="${process.version}"} 1`,
  ]) {
    expect(lines).toContain(line);
  }
  expect(lines.some((line) => line.startsWith('nodejs_eventloop_lag_p99_seconds '))).toBe(true);
  expect(lines.some((line) => line.startsWith('process_cpu_seconds_total '))).toBe(true);
});

test('the worker starts the series of every provider of the catalog at 0', async () => {
  const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
  const lines = (await metrics.expose()).text.split('\n');
  for (const outcome of METRIC_OUTCOMES) {
    expect(lines).toContain(
      `despatch_delivery_attempts_total{channel="sms",provider="twilio",outcome="${outcome}"} 0`,
    );
  }
  expect(lines).toContain('despatch_provider_request_duration_seconds_count{provider="twilio"} 0');
  expect(lines).toContain('despatch_circuit_state{provider="twilio",state="open"} 0');
  expect(lines).toContain('despatch_message_end_to_end_seconds_count{channel="push"} 0');
  for (const reason of GIVEN_UP_REASONS) {
    expect(lines).toContain(`despatch_dead_letters_total{reason="${reason}"} 0`);
  }
});

test('a sampled gauge is read at each scrape and has no value while it is unknown', async () => {
  const metrics = createWorkerMetrics();
  const valueOf = async (name: string) =>
    (await metrics.expose()).text.split('\n').find((line) => line.startsWith(`${name} `));
  let pending: number | null = 3;
  metrics.consumerPending.from(() => Promise.resolve(pending));
  metrics.credentialsAutonomy.from(() => Promise.reject(new Error('no')));
  expect(await valueOf('despatch_consumer_pending')).toBe('despatch_consumer_pending 3');
  pending = 7;
  expect(await valueOf('despatch_consumer_pending')).toBe('despatch_consumer_pending 7');
  pending = null;
  expect(await valueOf('despatch_consumer_pending')).toBeUndefined();
});

test('a source that does not answer hides only its own gauges and does not block the scrape', async () => {
  vi.useFakeTimers();
  try {
    const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
    metrics.backlog.from(() => new Promise(() => undefined));
    metrics.poolConnections.from(() => new Promise(() => undefined));
    metrics.inFlight.from(() => 4);
    const exposed = metrics.expose();
    await vi.advanceTimersByTimeAsync(SAMPLE_DEADLINE_MS);
    const lines = (await exposed).text.split('\n');
    expect(lines).toContain('despatch_worker_in_flight 4');
    expect(lines.filter((line) => /^despatch_(backlog|db_pool)/.test(line))).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});

test('breaker counts by state are read at each scrape', async () => {
  const metrics = createWorkerMetrics({ providers: [{ id: 'twilio', channel: 'sms' }] });
  const seriesOf = async () =>
    (await metrics.expose()).text.split('\n').filter((line) => line.startsWith('despatch_circuit_state{'));
  let open = 2;
  metrics.circuitState.from(() => [{ labels: { provider: 'twilio', state: 'open' }, value: open }]);
  expect(await seriesOf()).toEqual([
    'despatch_circuit_state{provider="twilio",state="open"} 2',
    'despatch_circuit_state{provider="twilio",state="probing"} 0',
  ]);
  open = 0;
  expect(await seriesOf()).toContain('despatch_circuit_state{provider="twilio",state="open"} 0');
});

test('METRIC_OUTCOMES has every outcome of an attempt', () => {
  const outcomes: Record<AttemptOutcome['kind'], true> = {
    accepted: true,
    rejected_permanent: true,
    rejected_transient: true,
    ambiguous: true,
    not_started: true,
  };
  expect(new Set<string>(METRIC_OUTCOMES)).toEqual(new Set(Object.keys(outcomes)));
});
