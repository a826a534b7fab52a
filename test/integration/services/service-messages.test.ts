import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { startSmtpStandIn } from '#providers/smtp/stand-in.ts';
import { call, type CallAnswer } from '#test/support/http-call.ts';
import type { ServiceProcess } from '#test/support/service-process.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import {
  startTraceCollector,
  type CollectedSpan,
  type TraceCollector,
} from '#test/support/trace-collector.ts';

let stack: ServiceStack;
let traces: TraceCollector;

beforeAll(async () => {
  traces = await startTraceCollector();
  const environment = {
    LOG_LEVEL: 'debug',
    OTEL_EXPORTER_OTLP_ENDPOINT: traces.origin,
    OTEL_TRACES_SAMPLE_RATIO: '1',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  stack = await startServiceStack({ api: environment, worker: environment });
});

afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await traces?.[Symbol.asyncDispose]();
});

const SOON = { interval: 50 };
/** Matches sends only: the check of a new account makes calls too, at a time of the worker's choice. */
const SENDS = /\/Messages\.json$/;

/** The fields that a message of each channel needs; the mark identifies it at the provider. */
const MESSAGE: Readonly<Record<Channel, (mark: string) => Record<string, string>>> = {
  sms: (mark) => ({ to: '+14155550100', body: mark }),
  email: (mark) => ({
    to: 'ada@example.com',
    from: 'Acme <hello@acme.example>',
    subject: 'Hello',
    bodyText: mark,
  }),
  push: (mark) => ({ to: 'device-token-of-ada', title: 'Hello', body: mark }),
  whatsapp: (mark) => ({ to: '+14155550100', body: mark }),
};

/** Everything that a channel's provider received. */
function arrivedAt(channel: Channel): string[] {
  switch (channel) {
    case 'sms':
      return stack.twilio.received.map(({ body }) => body);
    case 'email':
      return stack.smtp.received.map(({ raw }) => raw);
    case 'push':
      return stack.fcm.received.map(({ body }) => body);
    case 'whatsapp':
      return stack.whatsapp.received.map(({ body }) => body);
  }
}

/** The sender of each channel's message: from the request, or the account's own. */
const SENDER: Readonly<Record<Channel, unknown>> = {
  sms: '+15005550006',
  email: 'Acme <hello@acme.example>',
  push: null,
  whatsapp: expect.stringMatching(/^\d+$/),
};

const newMark = (): string => `mark${randomBytes(8).toString('hex')}`;

function processes(): ServiceProcess[] {
  return [...stack.apis, ...stack.workers];
}

async function send(
  tenant: StackTenant,
  body: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<{ id: string; enqueuedAt: string }> {
  const { serviceKey: key } = tenant;
  const answer = await call(stack.apis[0].origin, 'POST', '/v1/messages', { key, body, headers });
  expect(answer).toMatchObject({ status: 202, body: { status: 'queued' } });
  return answer.body as { id: string; enqueuedAt: string };
}

/** Reads the message through the other api process. */
async function recordOf(tenant: StackTenant, id: string): Promise<Record<string, unknown>> {
  const answer = await call(stack.apis[1].origin, 'GET', `/v1/messages/${id}`, { key: tenant.serviceKey });
  expect(answer.status).toBe(200);
  return answer.body as Record<string, unknown>;
}

async function sent(tenant: StackTenant, body: Record<string, unknown>): Promise<string> {
  const { id } = await send(tenant, body);
  await expect.poll(() => recordOf(tenant, id), SOON).toMatchObject({ status: 'sent' });
  return id;
}

test('ten megabytes of attachments arrive byte for byte', async () => {
  const tenant = await stack.tenant(['email']);
  const files = [randomBytes(9 * 1024 * 1024), randomBytes(1024 * 1024)];
  const mark = newMark();
  await sent(tenant, {
    channel: 'email',
    ...MESSAGE.email(mark),
    attachments: files.map((bytes, i) => ({
      filename: `${i}.bin`,
      contentType: 'application/octet-stream',
      content: bytes.toString('base64'),
    })),
  });
  const mail = stack.smtp.received.find(({ raw }) => raw.includes(mark))?.raw ?? '';
  const arrived = mail
    .split(/^--.*$/m)
    .filter((part) => /^content-disposition: attachment/im.test(part))
    .map((part) => Buffer.from(part.slice(part.indexOf('\r\n\r\n')), 'base64'));
  expect(arrived.map((bytes, i) => files[i]?.equals(bytes))).toEqual([true, true]);
});

describe('a message', () => {
  let tenant: StackTenant;
  beforeAll(async () => {
    tenant = await stack.tenant(CHANNELS);
  });

  test.for(CHANNELS)(
    'of channel %s accepted by one api is sent once by a worker and readable through the other api',
    async (channel) => {
      const mark = newMark();
      const { id, enqueuedAt } = await send(tenant, { channel, ...MESSAGE[channel](mark) });
      await expect
        .poll(() => recordOf(tenant, id), SOON)
        .toMatchObject({
          id,
          channel,
          status: 'sent',
          enqueuedAt,
          attemptCount: 1,
          duplicateRisk: false,
          failure: null,
          from: SENDER[channel],
        });
      expect(arrivedAt(channel).filter((text) => text.includes(mark))).toHaveLength(1);
      const attempts = await call(stack.apis[1].origin, 'GET', `/v1/messages/${id}/attempts`, {
        key: tenant.serviceKey,
      });
      expect(attempts.body.items).toMatchObject([{ number: 1, outcome: 'accepted' }]);
      const [worked] = await stack.admin<{ worker: string }[]>`
        select w.name as worker from attempts a join messages m on m.seq = a.message_seq join workers w on w.id = a.worker
        where m.id = ${id}`;
      expect(worked?.worker).toMatch(/^worker-[12]:/);
    },
  );
});

test('one trace spans request, wake-up and provider call, and both services log its id', async () => {
  const tenant = await stack.tenant();
  const traceId = randomBytes(16).toString('hex');
  const client = randomBytes(8).toString('hex');
  const { id } = await send(
    tenant,
    { channel: 'sms', to: '+14155550100', body: 'traced' },
    { traceparent: `00-${traceId}-${client}-01` },
  );

  const named = (part: string) => (span: CollectedSpan) =>
    span.traceId === traceId && span.name.includes(part);
  const find = (part: string): CollectedSpan | undefined => traces.spans().find(named(part));
  await expect
    .poll(() => find('send twilio') !== undefined && find('POST /v1/messages') !== undefined, SOON)
    .toBe(true);
  await expect.poll(() => find('process message'), SOON).toBeDefined();
  const [request, processed, provider] = [
    find('POST /v1/messages'),
    find('process message'),
    find('send twilio'),
  ];
  expect(request).toMatchObject({ service: 'despatch-api', kind: 2, parentSpanId: client });
  expect(processed).toMatchObject({ service: 'despatch-worker', kind: 5 });
  expect(provider).toMatchObject({ service: 'despatch-worker', kind: 3, parentSpanId: processed?.spanId });
  expect(ancestors(processed, traces.spans())).toContain(request?.spanId);

  const linesOf = async (services: readonly ServiceProcess[]): Promise<string[]> => {
    const logs = await Promise.all(services.map(({ log }) => log()));
    return logs
      .join('')
      .split('\n')
      .filter((line) => line.includes(traceId));
  };
  await expect.poll(() => linesOf(stack.apis), SOON).toContainEqual(expect.stringContaining('/v1/messages'));
  await expect.poll(() => linesOf(stack.workers), SOON).toContainEqual(expect.stringContaining(id));
});

type LogLine = Readonly<Record<string, unknown>>;

async function logLines(services: readonly ServiceProcess[]): Promise<LogLine[]> {
  const logs = await Promise.all(services.map((service) => service.log()));
  return logs.flatMap((log) =>
    log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as LogLine),
  );
}

test('messageId finds all log lines of a message, and requestId those of its request', async () => {
  const tenant = await stack.tenant();
  const requestId = `story-${newMark()}`;
  const headers = { 'x-request-id': requestId, 'idempotency-key': requestId };
  const body = { channel: 'sms', to: '+14155550100', body: 'Told in the logs' };
  const { id } = await send(tenant, body, headers);
  await expect.poll(() => recordOf(tenant, id), SOON).toMatchObject({ status: 'sent' });
  await send(tenant, body, { ...headers, 'x-request-id': `again-${requestId}` });

  const story = async (named: LogLine): Promise<LogLine[]> =>
    (await logLines(processes()))
      .filter((line) => Object.entries(named).every(([name, value]) => line[name] === value))
      .toSorted((a, b) => String(a['ts']).localeCompare(String(b['ts'])));
  const attempt = {
    msg: 'Attempt finished',
    requestId,
    messageId: id,
    outcome: 'accepted',
    status: 'sent',
  };
  const request = { event: 'request', messageId: id, statusCode: 202 };
  const found = async (component: string) => await story({ messageId: id, component });
  await expect.poll(() => found('worker'), SOON).toMatchObject([attempt]);
  await expect
    .poll(() => found('api'), SOON)
    .toMatchObject([
      { ...request, requestId },
      { ...request, requestId: `again-${requestId}` },
    ]);
  expect(await story({ requestId })).toHaveLength(2);
});

test('each rejected request is logged with its error code, others without one', async () => {
  const { id, serviceKey: key, token } = await stack.tenant(['sms']);
  const { origin } = stack.apis[0];
  const mark = newMark();
  const ask = async (
    name: string,
    method: string,
    path: string,
    options: Parameters<typeof call>[3] = {},
  ) => {
    const requestId = `${mark}-${name}`;
    const answer = await call(origin, method, path, {
      ...options,
      headers: { ...options.headers, 'x-request-id': requestId },
    });
    return { requestId, statusCode: answer.status, code: (answer.body as { code?: string }).code };
  };
  const sms = { channel: 'sms', to: '+14155550100', body: 'Hello' };
  const once = { 'idempotency-key': mark };
  const answers = [
    await ask('first', 'POST', '/v1/messages', { key, body: sms, headers: once }),
    await ask('400', 'POST', '/v1/messages', { key, body: { channel: 'sms' } }),
    await ask('400-route', 'POST', '/v1/messages', { key, body: { channel: 'push', to: 'a', title: 'b' } }),
    await ask('401', 'GET', '/v1/messages'),
    await ask('403', 'POST', `/v1/admin/tenants/${id}/suspend`, { token }),
    await ask('404', 'GET', `/v1/messages/${randomUUID()}`, { key }),
    await ask('404-route', 'GET', '/v1/nothing'),
    await ask('405', 'DELETE', '/v1/messages', { key }),
    await ask('409', 'POST', '/v1/messages', { key, body: { ...sms, body: 'Other' }, headers: once }),
  ];
  expect(answers.filter(({ code }) => code === undefined)).toHaveLength(1);
  const logged = async () =>
    (await logLines(stack.apis))
      .filter((line) => line['event'] === 'request' && String(line['requestId']).startsWith(mark))
      .map(({ requestId, statusCode, code }) => ({ requestId, statusCode, code }));
  await expect.poll(logged, SOON).toEqual(answers);
});

function ancestors(span: CollectedSpan | undefined, spans: readonly CollectedSpan[]): string[] {
  const above = spans.find(({ spanId }) => spanId === span?.parentSpanId);
  return above === undefined ? [] : [above.spanId, ...ancestors(above, spans)];
}

const API_METRICS = [
  'http_requests_total',
  'http_request_duration_seconds',
  'http_requests_in_flight',
  'messages_accepted_total',
  'messages_rejected_total',
  'idempotency_replays_total',
  'publish_duration_seconds',
  'publications_total',
  'publish_errors_total',
];
const WORKER_METRICS = [
  'delivery_attempts_total',
  'provider_request_duration_seconds',
  'message_end_to_end_seconds',
  'time_to_first_attempt_seconds',
  'worker_in_flight',
  'consumer_pending',
  'wakeups_received_total',
  'circuit_state',
];
const BOTH_METRICS = [
  'vault_requests_total',
  'vault_request_duration_seconds',
  'vault_token_expiry_timestamp_seconds',
  'db_query_duration_seconds',
  'db_pool_connections',
  'nats_connected',
  'build_info',
];

/** Sums the series of a metric whose labels contain all of these. */
function valueOf(exposition: string, name: string, ...labels: readonly string[]): number {
  return exposition
    .split('\n')
    .filter((line) => line.startsWith(`despatch_${name}{`) || line.startsWith(`despatch_${name} `))
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
}

function hasSample(exposition: string, name: string): boolean {
  return new RegExp(`^despatch_${name}(?:_count|_bucket|_sum)?(?:\\{[^}]*\\})? [0-9]`, 'm').test(exposition);
}

async function metricsOf(services: readonly ServiceProcess[]): Promise<string> {
  return (await Promise.all(services.map(({ metrics }) => metrics()))).join('\n');
}

test('both services expose their metrics, which count messages and name no tenant', async () => {
  const tenant = await stack.tenant();
  const [apiBefore, workerBefore] = await Promise.all([metricsOf(stack.apis), metricsOf(stack.workers)]);
  await sent(tenant, { channel: 'sms', to: '+14155550100', body: 'counted' });
  stack.twilio.fail({ kind: 'reply', status: 400, body: { code: 21211, message: 'No such number' } }, SENDS);
  const { id } = await send(tenant, { channel: 'sms', to: '+14155550100', body: 'refused' });
  await expect.poll(() => recordOf(tenant, id), SOON).toMatchObject({ status: 'failed' });
  const refused = await call(stack.apis[0].origin, 'POST', '/v1/messages', {
    key: tenant.serviceKey,
    body: { channel: 'sms' },
  });
  expect(refused.status).toBe(400);

  await expect
    .poll(async () => valueOf(await metricsOf(stack.workers), 'delivery_attempts_total'), SOON)
    .toBe(valueOf(workerBefore, 'delivery_attempts_total') + 2);
  const [apiAfter, workerAfter] = await Promise.all([metricsOf(stack.apis), metricsOf(stack.workers)]);
  const moved = (before: string, after: string, name: string, ...labels: readonly string[]): number =>
    valueOf(after, name, ...labels) - valueOf(before, name, ...labels);
  expect({
    accepted: moved(apiBefore, apiAfter, 'messages_accepted_total', 'channel="sms"'),
    rejected: moved(apiBefore, apiAfter, 'messages_rejected_total', 'reason="validation"'),
    answered: moved(apiBefore, apiAfter, 'http_requests_total', 'route="/v1/messages"', 'code="202"'),
    published: moved(apiBefore, apiAfter, 'publications_total') > 0,
    stored: moved(apiBefore, apiAfter, 'db_query_duration_seconds_count', 'op="accept"') > 0,
    encrypted: moved(apiBefore, apiAfter, 'vault_requests_total', 'op="encrypt"'),
    delivered: moved(
      workerBefore,
      workerAfter,
      'delivery_attempts_total',
      'provider="twilio"',
      'outcome="accepted"',
    ),
    failed: moved(workerBefore, workerAfter, 'delivery_attempts_total', 'outcome="rejected_permanent"'),
    called: moved(workerBefore, workerAfter, 'provider_request_duration_seconds_count', 'provider="twilio"'),
    ended: moved(workerBefore, workerAfter, 'message_end_to_end_seconds_count', 'channel="sms"'),
    begun: moved(workerBefore, workerAfter, 'time_to_first_attempt_seconds_count'),
    decrypted: moved(workerBefore, workerAfter, 'vault_requests_total', 'op="decrypt"') > 0,
    claimed: moved(workerBefore, workerAfter, 'db_query_duration_seconds_count', 'op="claim"') > 0,
  }).toEqual({
    accepted: 2,
    rejected: 1,
    answered: 2,
    published: true,
    stored: true,
    encrypted: 0,
    delivered: 1,
    failed: 1,
    called: 2,
    ended: 2,
    begun: 2,
    decrypted: true,
    claimed: true,
  });
  expect(valueOf(apiAfter, 'nats_connected')).toBe(2);
  expect(valueOf(workerAfter, 'nats_connected')).toBe(2);
  expect([...API_METRICS, ...BOTH_METRICS].filter((name) => !hasSample(apiAfter, name))).toEqual([]);
  expect([...WORKER_METRICS, ...BOTH_METRICS].filter((name) => !hasSample(workerAfter, name))).toEqual([]);
  for (const exposition of [apiAfter, workerAfter]) {
    expect(exposition).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/);
    expect(exposition).not.toContain(tenant.slug);
  }
});

// The other processes apply a notified change at once; the retries allow for a busy machine.
describe('a change made through one api process', { retry: 2 }, () => {
  /** Earlier than the five seconds after which a process rereads the change by itself. */
  const TOLD = { timeout: 4_000, interval: 20 };

  const isLive = ({ mode }: { mode: string }): boolean => mode === 'live';

  /** Sends through the other api process and adds each accepted text to `accepted`. */
  async function trySend(tenant: StackTenant, accepted: string[] = []): Promise<CallAnswer> {
    const text = newMark();
    const answer = await call(stack.apis[1].origin, 'POST', '/v1/messages', {
      key: tenant.serviceKey,
      body: { channel: 'sms', to: '+14155550100', body: text },
    });
    if (answer.status === 202) accepted.push(text);
    return answer;
  }

  test('suspends a tenant at once in all processes and holds its queue; resuming delivers it', async () => {
    const tenant = await stack.tenant();
    // So low a rate that most messages still wait when the suspension takes effect, on any machine.
    await limitAccount(tenant, 1);
    const accepted: string[] = [];
    await Promise.all(Array.from({ length: 60 }, () => trySend(tenant, accepted)));
    const arrived = (): string[] =>
      stack
        .texts()
        .map(({ text }) => text)
        .filter((text) => accepted.includes(text));
    await expect.poll(() => arrived().length, SOON).toBeGreaterThan(0);

    // The acceptance checks the suspension in its own transaction; reads check this process's cached copy.
    const tryRead = () => call(stack.apis[1].origin, 'GET', '/v1/messages', { key: tenant.serviceKey });
    expect(await tryRead()).toMatchObject({ status: 200 });

    const suspension = await call(stack.apis[0].origin, 'POST', `/v1/admin/tenants/${tenant.id}/suspend`, {
      token: stack.platformToken,
      body: { reason: 'abuse' },
    });
    expect(suspension.status).toBe(200);
    await expect
      .poll(() => trySend(tenant, accepted), TOLD)
      .toMatchObject({ status: 403, body: { code: 'tenant_suspended' } });
    await expect.poll(tryRead, TOLD).toMatchObject({ status: 403, body: { code: 'tenant_suspended' } });
    await expect
      .poll(async () => Object.keys(await stack.states(tenant.id)).toSorted(), SOON)
      .toEqual(['held', 'sent']);
    const { held = 0 } = await stack.states(tenant.id);
    expect(held).toBeGreaterThan(5);
    expect(arrived()).toHaveLength(accepted.length - held);

    await call(stack.apis[0].origin, 'POST', `/v1/admin/tenants/${tenant.id}/resume`, {
      token: stack.platformToken,
    });
    await expect.poll(() => trySend(tenant, accepted), SOON).toMatchObject({ status: 202 });
    await limitAccount(tenant, 100);
    await expect.poll(() => stack.states(tenant.id)).toEqual({ sent: accepted.length });
    expect(arrived().toSorted()).toEqual(accepted.toSorted());
  });

  test('revokes an API key at once in the other process', async () => {
    const tenant = await stack.tenant();
    expect(await trySend(tenant)).toMatchObject({ status: 202 });
    const owner = { token: tenant.token, slug: tenant.slug };
    const keys = await call(stack.apis[0].origin, 'GET', '/v1/admin/api-keys', owner);
    const revoked = await call(
      stack.apis[0].origin,
      'DELETE',
      `/v1/admin/api-keys/${keys.body.items.find(isLive).id}`,
      owner,
    );
    expect(revoked.status).toBeLessThan(300);
    await expect
      .poll(() => trySend(tenant), TOLD)
      .toMatchObject({ status: 401, body: { code: 'api_key_revoked' } });
  });
});

/** Lowers the account's rate limit so that messages wait. */
async function limitAccount(tenant: StackTenant, rateLimitPerSecond: number): Promise<void> {
  const owner = { token: tenant.token, slug: tenant.slug };
  const { body } = await call(stack.apis[0].origin, 'GET', '/v1/admin/providers', owner);
  const changed = await call(stack.apis[0].origin, 'PATCH', `/v1/admin/providers/${body.items[0].id}`, {
    ...owner,
    body: { rateLimitPerSecond },
  });
  expect(changed.status).toBe(200);
}

test('a new or changed account is verified automatically, and its status shows the result', async () => {
  const tenant = await stack.tenant([]);
  const owner = { token: tenant.token, slug: tenant.slug };
  const admin = (method: string, path: string, body?: unknown) =>
    call(stack.apis[0].origin, method, `/v1/admin/providers${path}`, { ...owner, ...(body ? { body } : {}) });
  await using wrong = await startSmtpStandIn();
  wrong.fail('auth', { kind: 'reply', code: 535, text: '5.7.8 Authentication credentials invalid' });
  await using own = await startSmtpStandIn();
  await using gone = await startSmtpStandIn();
  await gone[Symbol.asyncDispose]();
  const at = (port: number) => ({ host: '127.0.0.1', port, username: 'mailer' });
  const secretConfig = { password: 'first-password' };
  const create = async (port: number): Promise<string> => {
    const publicConfig = at(port);
    const body = { provider: 'smtp', label: 'Mail', publicConfig, secretConfig };
    const answer = await admin('POST', '', body);
    expect([answer.status, answer.body.status, answer.body.lastVerification]).toEqual([
      201,
      'unverified',
      null,
    ]);
    return answer.body.id as string;
  };
  const ends = async (id: string, expected: object): Promise<void> => {
    await expect.poll(async () => (await admin('GET', `/${id}`)).body, SOON).toMatchObject(expected);
  };
  const time = expect.any(String) as string;

  const good = await create(stack.smtp.port);
  const lastVerification = { at: time, result: 'valid', reason: null };
  await ends(good, { status: 'active', statusReason: null, lastVerification, verifiedAt: time });
  const closed = await create(gone.port);
  await ends(closed, {
    status: 'unverified',
    statusReason: 'connect_refused',
    lastVerification: { result: 'unknown', reason: 'connect_refused' },
    verifiedAt: null,
  });
  await ends(await create(wrong.port), {
    status: 'invalid',
    statusReason: 'authentication_failed',
    lastVerification: { result: 'invalid', reason: 'authentication_failed' },
    verifiedAt: null,
  });

  const { id } = await send(tenant, { channel: 'email', ...MESSAGE.email('x'), providerId: closed });
  const attempts = async () =>
    (await call(stack.apis[0].origin, 'GET', `/v1/messages/${id}/attempts`, { key: tenant.serviceKey })).body;
  await expect
    .poll(async () => (await attempts()).items.at(-1), SOON)
    .toMatchObject({
      outcome: 'rejected_transient',
      code: 'connect_refused',
      failure: { class: 'provider_unavailable', code: 'connect_refused' },
      providerMessage: 'The server of the provider refused the connection',
    });

  // Changing the server requires the password again, so a stored password cannot be sent to another server.
  const refused = await admin('PATCH', `/${good}`, { publicConfig: at(own.port) });
  expect([refused.status, refused.body.details[0].field]).toEqual([400, 'secretConfig']);
  const changed = await admin('PATCH', `/${good}`, {
    publicConfig: at(own.port),
    secretConfig: { password: 'second-password' },
  });
  expect([changed.body.status, changed.body.lastVerification]).toEqual(['unverified', null]);
  await ends(good, { status: 'active', lastVerification: { result: 'valid' } });
  expect(own.passwords).toEqual(['second-password']);
});

test('no log, metric, error or wake-up has secrets or content; content is only in its tables', async () => {
  const overheard: string[] = [];
  const nats = await connect({
    servers: stack.nats.url,
    user: stack.natsAdmin.user,
    pass: stack.natsAdmin.password,
  });
  nats.subscribe('>', {
    callback: (_error, message) =>
      void overheard.push(
        `${message.subject} ${JSON.stringify([...(message.headers ?? [])])} ${message.string()}`,
      ),
  });
  await nats.flush();

  const tenant = await stack.tenant([]);
  const owner = { token: tenant.token, slug: tenant.slug };
  const authToken = `auth${randomBytes(14).toString('hex')}`;
  const created = await call(stack.apis[0].origin, 'POST', '/v1/admin/providers', {
    ...owner,
    body: {
      provider: 'twilio',
      label: 'Canary',
      publicConfig: { accountSid: `AC${randomBytes(16).toString('hex')}`, from: '+15005550006' },
      secretConfig: { authToken },
    },
  });
  expect(created.status).toBe(201);
  const recipient = `+1415${randomInt(2_000_000, 9_999_999)}`;
  const text = newMark();
  const message = { channel: 'sms', to: recipient, body: text };
  const [delivered, bad] = [await sent(tenant, message), newMark()];
  // A provider whose error message repeats the request.
  const said = `'To' ${recipient}, text '${text}', password ${authToken}`;
  stack.twilio.fail({ kind: 'reply', status: 400, body: { code: 21211, message: said } }, SENDS);
  const { id: failed } = await send(tenant, message, { 'idempotency-key': 'once' });
  await expect.poll(() => recordOf(tenant, failed), SOON).toMatchObject({ status: 'failed' });
  const wrongKey = `${tenant.serviceKey.slice(0, -3)}abc`;
  const errors = await Promise.all([
    call(stack.apis[0].origin, 'POST', '/v1/messages', { key: wrongKey, body: message }),
    call(stack.apis[0].origin, 'POST', '/v1/messages', {
      key: tenant.serviceKey,
      body: { ...message, to: `${recipient}${recipient}`, category: bad },
    }),
    call(stack.apis[0].origin, 'POST', '/v1/messages', { key: tenant.serviceKey, body: `{"body":"${text}"` }),
    call(stack.apis[0].origin, 'POST', '/v1/messages', {
      key: tenant.serviceKey,
      headers: { 'idempotency-key': 'once' },
      body: { ...message, externalId: 'other' },
    }),
    call(stack.apis[0].origin, 'GET', '/v1/admin/providers', {
      token: `${tenant.token}x`,
      slug: tenant.slug,
    }),
    call(stack.apis[0].origin, 'POST', '/v1/admin/providers', {
      ...owner,
      body: { provider: 'twilio', label: 'Bad', publicConfig: {}, secretConfig: { authToken: [authToken] } },
    }),
  ]);
  expect(errors.map(({ status }) => status)).toEqual([401, 400, 400, 409, 401, 400]);
  await nats.flush();
  await nats.close();

  const credentials = [authToken, tenant.serviceKey, tenant.serviceKey.split('_')[3] ?? '', tenant.token];
  const content = [text, bad];
  const address = recipient.slice(1);
  const everything = [...credentials, ...content, address];
  const logs = (await Promise.all(processes().map(({ log }) => log()))).join('\n');
  const outputs = {
    logs,
    metrics: await metricsOf(processes()),
    errors: JSON.stringify(errors.map(({ body }) => body as unknown)),
    nats: overheard.join('\n'),
  };
  // Proves that the searched outputs contain these messages at all.
  expect(outputs.logs).toContain(delivered);
  expect(outputs.logs).toContain(failed);
  expect(outputs.nats).toContain(delivered);
  expect(found(outputs, [...everything, ...stack.secrets])).toEqual([]);

  const tables = await contentsOfTables();
  expect(tables['messages']).toContain(text);
  expect(found(tables, [...credentials, ...stack.secrets])).toEqual([]);
  const { messages: _messages, ...others } = tables;
  expect(found(others, content)).toEqual([]);
  // A stored answer for replays contains the recipient, as the first answer did.
  const { idempotency_keys: _replays, suppressions, tenant_events: told, ...without } = others;
  expect(found(without, [address])).toEqual([]);
  // The provider reported an invalid number, so the suppression list and the tenant's feed contain it.
  expect(suppressions).toContain(address);
  expect(told).toContain(address);
});

/** Returns the needles found in each place, verbatim, in hex or in base64. */
function found(places: Readonly<Record<string, string>>, needles: readonly string[]): string[] {
  return Object.entries(places).flatMap(([place, haystack]) =>
    needles.flatMap((needle, i) => {
      const spellings = [
        needle,
        Buffer.from(needle).toString('hex'),
        Buffer.from(needle).toString('base64').replace(/=+$/, ''),
      ];
      return spellings.some((spelling) => haystack.includes(spelling)) ? [`${place}: needle ${i}`] : [];
    }),
  );
}

/** Returns every row of every table, by the base name of the table. */
async function contentsOfTables(): Promise<Record<string, string>> {
  const names = await stack.admin<{ name: string }[]>`
    select relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'despatch' and c.relkind in ('r', 'p') and not c.relispartition`;
  const entries = names.map(async ({ name }) => {
    const rows = await stack.admin<{ line: string }[]>`select t::text as line from ${stack.admin(name)} t`;
    return [name, rows.map(({ line }) => line).join('\n')] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}
