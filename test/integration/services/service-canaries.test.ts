import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROVIDERS, type ProviderKind } from '#providers/registry.gen.ts';
import type { Fault, Received, StandIn } from '#providers/stand-in.ts';
import { canaryAccount, canaryAccountOf, type CanaryAccount } from '#test/support/canary-accounts.ts';
import { searchForCanaries, type Canary, type CanarySearch } from '#test/support/canaries.ts';
import { CATALOG_ACCOUNTS } from '#test/support/catalog-accounts.ts';
import { call, type CallOptions } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import { startTraceCollector, type TraceCollector } from '#test/support/trace-collector.ts';
import { messageOf } from '#test/support/vendor-accounts.ts';
import { VENDORS, type StandInId } from '../../../deploy/quickstart/vendors.ts';

type Shown = { readonly id: string; readonly status: string };
type Entered = CanaryAccount & { readonly id: string; readonly receiptUrl: string | null };

/** Vendors with an HTTP API. Simulators have no secrets. */
const CALLED = (Object.keys(VENDORS) as StandInId[]).filter((id) => !id.startsWith('simulator-'));
const ASKED = CALLED.filter((id) => PROVIDERS.get(id)?.lookup !== undefined);
/** The body is stored in the database by design, so a search that does not find it there is broken. */
const CONTROL: Canary = { name: 'a body', secret: 'this body is stored as it was sent' };

let stack: ServiceStack;
let traces: TraceCollector;
let tenant: StackTenant;
let search: CanarySearch;
const standIns = new AsyncDisposableStack();
const accounts = new Map<ProviderKind, Entered>();
/** The account that sent each message, by message id. */
const sentBy = new Map<string, Entered>();
/** Vendors that refuse every call and repeat its content in their answer. */
const echoing = new Map<ProviderKind, number>();
const echoed = new Map<ProviderKind, number>();

const SMTP = CATALOG_ACCOUNTS.smtp.publicConfig;
/** Alternative secrets for accounts that are in the catalog's list. */
const OTHERS = [
  canaryAccountOf(
    'fcm',
    { projectId: 'my-app-1a2b3' },
    {
      serviceAccountJson: JSON.stringify({
        type: 'service_account',
        project_id: 'my-app-1a2b3',
        client_email: 'd@my-app-1a2b3.iam.gserviceaccount.com',
        private_key: CATALOG_ACCOUNTS.fcm.secretConfig['privateKey'],
      }),
    },
  ),
  canaryAccountOf(
    'smtp',
    { host: '127.0.0.1', from: SMTP['from'], username: 'mailer', oauthIssuer: 'google' },
    {
      clientId: 'client-id-of-tests',
      clientSecret: 'client-secret-of-tests',
      refreshToken: 'refresh-token-of-tests',
    },
  ),
];
const CATALOG = [...CALLED.map((id) => canaryAccount(id)), canaryAccount('smtp', { host: '127.0.0.1' })];
const CANARIES = [...CATALOG, ...OTHERS].flatMap(({ canaries }) => canaries);

beforeAll(async () => {
  search = searchForCanaries([...CANARIES, CONTROL]);
  const urls = await Promise.all(CALLED.map(async (id) => `${id}=${(await startVendor(id)).origin}`));
  traces = await startTraceCollector();
  const traced = {
    LOG_LEVEL: 'debug',
    OTEL_EXPORTER_OTLP_ENDPOINT: traces.origin,
    OTEL_TRACES_SAMPLE_RATIO: '1',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  stack = await startServiceStack({
    api: traced,
    worker: { ...traced, PROVIDER_BASE_URLS: urls.join(','), SWEEP_INTERVAL_MS: '500' },
  });
  tenant = await stack.tenant([]);
  await listenToNats();
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await traces?.[Symbol.asyncDispose]();
  await standIns.disposeAsync();
});

async function startVendor(id: StandInId): Promise<StandIn> {
  const standIn = await VENDORS[id].start({
    isReporting: true,
    // Signs with the former secret, as a vendor that does not have the new one yet.
    accountOf: async (reference) => {
      const by = sentBy.get(reference);
      return by?.receiptUrl == null
        ? undefined
        : { publicConfig: by.publicConfig, secretConfig: by.former, receiptUrl: by.receiptUrl };
    },
    interfere: async (request) => echo(id, request),
  });
  return standIns.use(standIn);
}

/** Returns a vendor's refusal that repeats the request and a secret of the account in all encodings, another one at each call. */
function echo(id: ProviderKind, { headers, body }: Received): Fault | undefined {
  const status = echoing.get(id);
  const account = accounts.get(id);
  if (status === undefined || account === undefined) return undefined;
  const turn = echoed.get(id) ?? 0;
  echoed.set(id, turn + 1);
  const secrets = Object.values(account.present);
  const secret = secrets[turn % secrets.length] ?? '';
  const [, pair = ''] = /^Basic (.+)$/.exec(headers['authorization'] ?? '') ?? [];
  const forms = [secret, Buffer.from(secret).toString('base64'), encodeURIComponent(secret)];
  const text = [...forms, headers['authorization'], Buffer.from(pair, 'base64').toString(), body].join(' ');
  const error = {
    code: 'E1',
    title: text,
    detail: text,
    description: text,
    message: text,
    field: text,
    help: text,
  };
  return {
    kind: 'reply',
    status,
    headers: { 'x-echo': encodeURIComponent(text).slice(0, 2_000) },
    body: {
      ...error,
      error: text,
      errors: [error],
      requestError: { serviceException: { messageId: 'E1', text } },
      name: 'application_error',
      statusCode: status,
      type: text,
      status,
      text,
      ErrorCode: 1,
      Message: text,
      reason: text,
    },
  };
}

/** Calls as an owner or with a key and searches the answer. */
async function ask<T>(method: string, path: string, options: CallOptions): Promise<T> {
  const { status, body, headers } = await call(stack.apis[0].origin, method, path, options);
  search.inText(
    `answer of ${method} ${path.replaceAll(/[0-9a-f-]{36}/g, ':id')}`,
    `${status} ${JSON.stringify(body)}`,
  );
  search.inText('headers of answers', JSON.stringify([...headers]));
  return body as T;
}
const asOwner = <T>(method: string, path: string, body?: unknown): Promise<T> =>
  ask(method, path, { token: tenant.token, slug: tenant.slug, ...(body === undefined ? {} : { body }) });
const withKey = <T>(method: string, path: string, body?: unknown): Promise<T> =>
  ask(method, path, { key: tenant.serviceKey, ...(body === undefined ? {} : { body }) });

async function enter(account: CanaryAccount): Promise<Entered> {
  const { provider, publicConfig, former, present } = account;
  const made = await asOwner<{ id: string; receiptUrl: string | null }>('POST', '/v1/admin/providers', {
    provider,
    label: `${provider} ${crypto.randomUUID()}`,
    publicConfig,
    secretConfig: former,
  });
  expect({ provider, made }).toMatchObject({ made: { id: expect.any(String) } });
  const replaced = await asOwner('PUT', `/v1/admin/providers/${made.id}/secret`, { secretConfig: present });
  expect({ provider, replaced }).toMatchObject({ replaced: { secretVersion: 2 } });
  return { ...account, id: made.id, receiptUrl: made.receiptUrl };
}

/** Makes requests with secrets that the api refuses. */
async function enterBadly({ id, provider, publicConfig, present }: Entered): Promise<void> {
  for (const [field, secret] of Object.entries(present)) {
    const secretConfig = { ...present, [field]: [secret] };
    await asOwner('POST', '/v1/admin/providers', { provider, publicConfig, secretConfig });
    await asOwner('PUT', `/v1/admin/providers/${id}/secret`, { secretConfig });
    await asOwner(
      'PUT',
      `/v1/admin/providers/${id}/secret`,
      `{"secretConfig": {"${field}": ${JSON.stringify(secret)}`,
    );
    await asOwner('POST', '/v1/admin/providers', { provider: secret, publicConfig, secretConfig });
  }
}

async function send(provider: ProviderKind, behaviour: 'delivered' | 'silent'): Promise<string> {
  const account = accounts.get(provider) as Entered;
  const body = provider.startsWith('twilio') ? { body: CONTROL.secret } : {};
  const message = { ...messageOf(provider, behaviour), ...body, providerId: account.id };
  const { id } = await withKey<Shown>('POST', '/v1/messages', message);
  expect({ provider, id }).toMatchObject({ id: expect.any(String) });
  sentBy.set(id, account);
  return id;
}

const statusOf = async (id: string): Promise<string> =>
  (await withKey<Shown>('GET', `/v1/messages/${id}`)).status;
const POLL = { interval: 200 };

async function listenToNats(): Promise<void> {
  const { user, password: pass } = stack.natsAdmin;
  const nats = await connect({ servers: stack.nats.url, user, pass });
  standIns.defer(() => nats.close());
  nats.subscribe('>', {
    callback: (_, message) =>
      search.inText(
        'NATS',
        `${message.subject} ${JSON.stringify([...(message.headers ?? [])])} ${message.string()}`,
      ),
  });
}

test('provider secrets appear in no answer, log, metric, trace, wake-up or table as plaintext', async () => {
  for (const entered of await Promise.all(CATALOG.map(enter))) accounts.set(entered.provider, entered);
  const others = await Promise.all(OTHERS.map(enter));
  await Promise.all([...accounts.values(), ...others].map(enterBadly));

  // Sends messages that are delivered and reported on, signed with the former secret.
  const delivered = await Promise.all(CALLED.map(async (id) => [id, await send(id, 'delivered')] as const));
  await expect
    .poll(async () => {
      const states = await Promise.all(
        delivered.map(async ([id, message]) => [id, await statusOf(message)] as const),
      );
      return states.filter(
        ([id, status]) => status !== (PROVIDERS.get(id)?.receipts === null ? 'sent' : 'delivered'),
      );
    }, POLL)
    .toEqual([]);
  // Sends forged reports to the receipt URLs.
  await Promise.all(
    [...accounts.values()].map(async ({ receiptUrl }) => {
      if (receiptUrl === null) return;
      const reply = await fetch(receiptUrl, { method: 'POST', body: '{"forged": true}' });
      search.inText('answer of a receipt URL', `${await reply.text()} ${JSON.stringify([...reply.headers])}`);
    }),
  );

  // Sends messages without a report, so that the worker looks them up and the vendors answer.
  const silent = await Promise.all(ASKED.map(async (id) => [id, await send(id, 'silent')] as const));
  await expect
    .poll(async () => {
      const states = await Promise.all(
        silent.map(async ([id, message]) => [id, await statusOf(message)] as const),
      );
      return states.filter(([, status]) => status !== 'sent');
    }, POLL)
    .toEqual([]);
  for (const [status, checks] of [
    [403, true],
    [400, false],
  ] as const) {
    for (const id of CALLED) echoing.set(id, status);
    if (checks) {
      const checked = [...accounts.values()].map(({ id }) =>
        asOwner('POST', `/v1/admin/providers/${id}/verify`),
      );
      await Promise.all(checked);
      // A check that ends later could set the status of its account while messages are looked up.
      const unchecked = () => stack.admin`
        select from provider_accounts where tenant_id = ${tenant.id} and verify_requested_at is not null`;
      await expect.poll(unchecked, POLL).toHaveLength(0);
    }
    const refused = await Promise.all(CALLED.map(async (id) => [id, await send(id, 'delivered')] as const));
    await expect
      .poll(async () => {
        const tries = await Promise.all(
          refused.map(async ([id, message]) => {
            const { items } = await withKey<{ items: unknown[] }>('GET', `/v1/messages/${message}/attempts`);
            return [id, items.length] as const;
          }),
        );
        return tries.filter(([, attempts]) => attempts === 0);
      }, POLL)
      .toEqual([]);
    await lookAgain(silent.map(([, id]) => id));
  }
  echoing.clear();
  await lookAgain(silent.map(([, id]) => id));
  await expect
    .poll(
      async () => (await Promise.all(silent.map(([, id]) => statusOf(id)))).filter((s) => s !== 'delivered'),
      POLL,
    )
    .toEqual([]);

  await lookThroughAll();
  const hits = search.hits();
  expect(hits.filter(({ canary }) => canary !== CONTROL.name)).toEqual([]);
  expect(hits.filter(({ place }) => place.startsWith('table '))).not.toEqual([]);
  expect(new Set(CANARIES.map(({ name }) => name.split(' ')[0])).size).toBe(CALLED.length + 1);
});

/** Makes the lookups of these messages due now and waits until they are done. */
async function lookAgain(ids: readonly string[]): Promise<void> {
  const asks = async (): Promise<number[]> => {
    const rows = await stack.admin<{ asks: number }[]>`
      select coalesce(l.asks, -1)::int as asks from messages m left join lookups l on l.seq = m.seq
      where m.id = any (${[...ids]})`;
    return rows.map((row) => row.asks);
  };
  const before = Math.max(...(await asks()), 0);
  await stack.admin`update awaited_receipts a set due_at = now() from messages m
    where m.seq = a.seq and m.id = any (${[...ids]})`;
  await stack.admin`update lookups set ask_at = now()`;
  await stack.admin`update lookup_turns set next_at = now(), open_at = now(), failures = 0`;
  await stack.admin`update provider_accounts set status = 'active', version = version + 1 where tenant_id = ${tenant.id}`;
  await expect
    .poll(async () => (await asks()).every((n) => n > before || (n === -1 && before > 0)), POLL)
    .toBe(true);
}

async function lookThroughAll(): Promise<void> {
  for (const path of [
    '/v1/admin/providers?limit=200',
    '/v1/admin/provider-catalog',
    '/v1/admin/audit-log?limit=200',
    '/v1/admin/api-keys',
    '/v1/admin/limits',
    '/v1/admin/me',
    '/v1/admin/members',
  ])
    await asOwner('GET', path);
  for (const { id } of accounts.values()) await asOwner('GET', `/v1/admin/providers/${id}`);
  await withKey('GET', '/v1/messages?limit=200');
  for (const id of sentBy.keys()) {
    await withKey('GET', `/v1/messages/${id}/events`);
    await withKey('GET', `/v1/messages/${id}/attempts`);
  }
  await search.inTables(stack.admin, 'despatch');
  for (const service of [...stack.apis, ...stack.workers]) {
    search.inText(`log of ${service.name}`, await service.log());
    search.inText(`metrics of ${service.name}`, await service.metrics());
  }
  for (const body of traces.bodies()) search.inText('traces', body);
}
