import { rm } from 'node:fs/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call, type CallAnswer, type CallOptions } from '#test/support/http-call.ts';
import { startLoad } from '#test/support/send-load.ts';
import type { ServiceProcess } from '#test/support/service-process.ts';
import { startOutageStack, type OutageStack, type StackTenant } from '#test/support/service-stack.ts';

const STATEMENT_TIMEOUT_MS = 2_000;

let stack: OutageStack;

beforeAll(async () => {
  const environment = { DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_TIMEOUT_MS) };
  stack = await startOutageStack({ api: environment, worker: { ...environment, SWEEP_INTERVAL_MS: '500' } });
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
});

const isLive = ({ mode }: { mode: string }): boolean => mode === 'live';
const SOON = { interval: 50 };
const MESSAGE = { channel: 'sms', to: '+14155550100', body: 'Hello' };

const send = (api: ServiceProcess, tenant: StackTenant): Promise<CallAnswer> =>
  call(api.origin, 'POST', '/v1/messages', { key: tenant.serviceKey, body: MESSAGE });

function admin(
  tenant: StackTenant,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<CallAnswer> {
  return call(stack.apis[0].origin, method, `/v1/admin/${path}`, {
    token: tenant.token,
    slug: tenant.slug,
    ...options,
  });
}

async function expectAccepted(tenant: StackTenant, count: number): Promise<string[]> {
  const answers = await Promise.all(
    Array.from({ length: count }, (_, i) => send(stack.apis[(i % 2) as 0 | 1], tenant)),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: count }, () => 202));
  return answers.map(({ body }) => body.id as string);
}

function processes(): ServiceProcess[] {
  return [...stack.apis, ...stack.workers];
}

async function untilConnected(value: 0 | 1): Promise<void> {
  const connected = async (): Promise<string[]> => {
    const expositions = await Promise.all(processes().map(({ metrics }) => metrics()));
    return expositions.map((text) => /^despatch_nats_connected (\d)/m.exec(text)?.[1] ?? '');
  };
  await expect.poll(connected, SOON).toEqual(processes().map(() => String(value)));
}

async function untilReadiness(
  services: readonly ServiceProcess[],
  status: number,
  failing: string[],
): Promise<void> {
  await expect
    .poll(() => Promise.all(services.map(({ readiness }) => readiness())), { interval: 50 })
    .toEqual(services.map(() => ({ status, failing })));
}

test('without NATS the sweep delivers messages; suspension and key revocation take effect', async () => {
  const [sender, suspended, revoked] = await Promise.all([stack.tenant(), stack.tenant(), stack.tenant()]);
  const { body: keys } = await admin(revoked, 'GET', 'api-keys');
  // So low a rate that most of its messages wait.
  const { body: accounts } = await admin(suspended, 'GET', 'providers');
  await admin(suspended, 'PATCH', `providers/${accounts.items[0].id}`, { body: { rateLimitPerSecond: 1 } });
  await stack.nats.stop();
  await untilConnected(0);

  await expectAccepted(sender, 20);
  await expect.poll(() => stack.states(sender.id), SOON).toEqual({ sent: 20 });
  await untilReadiness(processes(), 200, []);

  await Promise.all([expectAccepted(suspended, 20), expectAccepted(revoked, 2)]);
  const changes = await Promise.all([
    admin(suspended, 'POST', `tenants/${suspended.id}/suspend`, {
      token: stack.platformToken,
      body: { reason: 'abuse' },
    }),
    admin(revoked, 'DELETE', `api-keys/${keys.items.find(isLive).id}`),
  ]);
  expect(changes.filter(({ status }) => status >= 300)).toEqual([]);
  const afterFiveSeconds = async (look: () => Promise<unknown>, seen: unknown): Promise<void> => {
    await expect.poll(look, SOON).toBe(seen);
  };
  const codeOfSend = async (tenant: StackTenant): Promise<unknown> =>
    (await send(stack.apis[1], tenant)).body.code;
  await Promise.all([
    afterFiveSeconds(() => codeOfSend(suspended), 'tenant_suspended'),
    afterFiveSeconds(() => codeOfSend(revoked), 'api_key_revoked'),
    afterFiveSeconds(async () => {
      const { held = 0, sent = 0 } = await stack.states(suspended.id);
      return held > 0 && held + sent === 20;
    }, true),
  ]);
});

test('after a NATS restart with an empty store, wake-ups reach the workers again', async () => {
  const tenant = await stack.tenant();
  await stack.nats.stop();
  await rm(stack.nats.storeDir, { recursive: true });
  await stack.nats.restart();
  await untilConnected(1);

  // A lost wake-up costs five seconds, a delivered one milliseconds.
  const msToAttempt = async (): Promise<number> => {
    const [id = ''] = await expectAccepted(tenant, 1);
    const find = () => stack.admin<{ ms: number }[]>`
      select extract(epoch from a.started_at - m.enqueued_at)::float8 * 1000 as ms
      from attempts a join messages m on m.seq = a.message_seq where m.id = ${id}`;
    await expect.poll(find, SOON).toHaveLength(1);
    return (await find())[0]?.ms ?? Number.POSITIVE_INFINITY;
  };
  await expect.poll(msToAttempt).toBeLessThan(4_000);
  const { user, password: pass } = stack.natsAdmin;
  const nats = await connect({ servers: stack.nats.url, user, pass });
  const { state } = await (await jetstreamManager(nats)).streams.info('DESPATCH_WAKE');
  await nats.close();
  expect(state.last_seq).toBeGreaterThan(0);
});

test('a Postgres crash under load causes 503 answers, but loses no acknowledged message', async () => {
  const tenant = await stack.tenant();
  const load = startLoad(stack.apis, tenant.serviceKey, 8);
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(100);
  await stack.postgres.stop('immediate');
  await untilReadiness(processes(), 503, ['database']);
  await expect.poll(() => load.refusals.length, SOON).toBeGreaterThan(20);
  const before = load.acknowledged.size;
  await stack.postgres.restart();
  await untilReadiness(processes(), 200, []);
  await expect.poll(() => load.acknowledged.size, SOON).toBeGreaterThan(before + 100);
  await load.stop();

  for (const { status, headers, body } of load.refusals) {
    expect({ status, retryAfter: Number(headers.get('retry-after')), body }).toEqual({
      status: 503,
      retryAfter: expect.toSatisfy((seconds: number) => seconds >= 1),
      body: {
        statusCode: 503,
        code: 'dependency_unavailable',
        message: 'Service is temporarily unavailable',
        path: '/v1/messages',
        timestamp: expect.any(String),
        requestId: expect.any(String),
      },
    });
  }
  expect(load.slowestMs()).toBeLessThan(15_000);
  // A commit whose answer was lost may take effect after its 503, so the test compares the final state.
  await expect.poll(async () => Object.keys(await stack.states(tenant.id))).toEqual(['sent']);
  const rows = await stack.admin<{ id: string; text: string; risk: boolean }[]>`
    select m.id, m.content ->> 'body' as text, s.duplicate_risk as risk
    from messages m join message_states s using (seq, purge_on) where m.tenant_id = ${tenant.id}`;
  const stored = new Set(rows.map(({ id }) => id));
  expect([...load.acknowledged.keys()].filter((id) => !stored.has(id))).toEqual([]);
  expect(await stack.states(tenant.id)).toEqual({ sent: rows.length });
  const texts = stack.texts().map(({ text }) => text);
  const arrived = new Map(rows.map(({ text }) => [text, 0]));
  for (const text of texts) arrived.set(text, (arrived.get(text) ?? 0) + 1);
  expect(rows.filter(({ text, risk }) => arrived.get(text) !== 1 && !risk)).toEqual([]);
});

test('a sealed Vault delays only messages without cached credentials, and rejects new secrets', async () => {
  const [cached, uncached] = await Promise.all([stack.tenant(), stack.tenant()]);
  // The check of a new account caches its credential in a worker; the restarted workers have none cached.
  const unchecked = () => stack.admin`select from provider_accounts where verify_requested_at is not null`;
  await expect.poll(async () => (await unchecked()).length, SOON).toBe(0);
  for (const worker of stack.workers) {
    await worker.end();
    await worker.start();
  }
  const workers = async (): Promise<number> => {
    await expectAccepted(cached, 4);
    // An accepted call proves that the worker has the credential cached.
    const served = await stack.admin`
      select distinct worker from attempts where tenant_id = ${cached.id} and outcome = 'accepted'`;
    return served.length;
  };
  await expect.poll(workers, { interval: 100 }).toBe(2);
  await stack.vault.seal();

  await expectAccepted(cached, 20);
  const [waiting = ''] = await expectAccepted(uncached, 1);
  await expect.poll(async () => Object.keys(await stack.states(cached.id)), SOON).toEqual(['sent']);
  const attempts = () =>
    stack.admin<{ outcome: string; reason: string }[]>`
      select a.outcome, a.reason from attempts a join messages m on m.seq = a.message_seq
      where m.id = ${waiting} and a.outcome <> 'started'`;
  await expect.poll(async () => (await attempts()).length, SOON).toBeGreaterThan(1);
  for (const attempt of await attempts()) {
    expect(attempt).toEqual({ outcome: 'not_started', reason: 'credentials_unavailable' });
  }
  const [state] = await stack.admin`
    select retries, ambiguous, provider_waits, duplicate_risk
    from live_messages join messages m using (seq, purge_on) where m.id = ${waiting}`;
  expect(state).toEqual({ retries: 0, ambiguous: 0, provider_waits: 0, duplicate_risk: false });

  const { body: accounts } = await admin(cached, 'GET', 'providers');
  const account = {
    provider: 'twilio',
    label: 'Another',
    publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15005550006' },
    secretConfig: { authToken: '0'.repeat(32) },
  };
  const writes = await Promise.all([
    admin(cached, 'POST', 'providers', { body: account }),
    admin(cached, 'PUT', `providers/${accounts.items[0].id}/secret`, {
      body: { secretConfig: account.secretConfig },
    }),
  ]);
  for (const { status, body, headers } of writes) {
    expect({ status, code: body.code as unknown }).toEqual({ status: 503, code: 'dependency_unavailable' });
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  }
  await untilReadiness(processes(), 200, []);

  await stack.vault.unseal();
  await expect.poll(() => stack.states(uncached.id)).toEqual({ sent: 1 });
  await expect
    .poll(async () => (await admin(cached, 'POST', 'providers', { body: account })).status, SOON)
    .toBe(201);
});
