import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { seedAccount } from '#test/support/seed.ts';
import {
  get,
  LEAST,
  request,
  send,
  startTestApi,
  type Instance,
  type Reply,
  type TestApi,
} from '#test/support/api.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
let other: Instance;
beforeAll(async () => {
  api = await startTestApi();
  other = await api.instance();
});
afterAll(() => api[Symbol.asyncDispose]());

/** Alternates between two api processes, each with its own pool, caches and batches. */
const both = (i: number): Instance => (i % 2 === 0 ? api.first : other);
const statuses = (replies: readonly Reply[], status: number) =>
  replies.filter((reply) => reply.status === status);

async function messageCount(tenantId: string): Promise<number> {
  const [row] = await api.admin`select count(*)::integer as n from messages where tenant_id = ${tenantId}`;
  return row?.['n'] as number;
}

/** What a key with a small limit may send in a minute without being counted. */
const ALLOWED = 600;

/** Uses up a part of that by messages that fail validation. */
async function spendUncounted(key: TestKey, sends: number): Promise<void> {
  for (let left = sends; left > 0; left -= ALLOWED / 4) {
    const messages = Array.from({ length: Math.min(left, ALLOWED / 4) }, () => ({ channel: 'sms' }));
    const headers = { 'x-service-key': key.text };
    const { status } = await request(api.first, 'POST', '/v1/messages/batch', {
      body: { messages },
      headers,
    });
    expect(status).toBe(202);
  }
}

describe('the daily limit', () => {
  test('exactly ten of fifty parallel messages over two processes pass a limit of ten', async () => {
    const tenant = await api.tenant({ messagesPerDay: 10 });
    const began = Date.now();
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, i) => send(both(i), tenant.key, LEAST.sms)),
    );
    expect(statuses(replies, 202)).toHaveLength(10);
    const refused = statuses(replies, 429);
    const tookSeconds = (Date.now() - began) / 1_000;
    const toMidnight = 86_400 - (Math.floor(began / 1_000) % 86_400);
    expect(refused).toHaveLength(40);
    expect(await messageCount(tenant.tenantId)).toBe(10);
    for (const { body, headers } of refused) {
      expect(body).toMatchObject({
        statusCode: 429,
        code: 'daily_limit_reached',
        limit: { name: 'messagesPerDay', value: 10 },
      });
      const behind = toMidnight + 1 - Number(headers['retry-after']);
      expect(behind).toBeGreaterThanOrEqual(0);
      expect(behind).toBeLessThanOrEqual(tookSeconds + 2);
    }
  });

  test('refused requests, replays and test mode do not count', async () => {
    const tenant = await api.tenant({ messagesPerDay: 2 });
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    for (const key of ['a', 'a', 'a'])
      expect((await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': key })).status).toBe(202);
    expect((await send(api.first, tenant.key, { ...LEAST.sms, to: 'x' })).status).toBe(400);
    for (let i = 0; i < 3; i++) expect((await send(api.first, testKey, LEAST.sms)).status).toBe(202);
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(202);
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(429);
  });

  test('of test messages is separate and shared by all test keys', async () => {
    const tenant = await api.tenant({ messagesPerDay: 2 });
    const keys = [
      await api.key(tenant.tenantId, { mode: 'test' }),
      await api.key(tenant.tenantId, { mode: 'test' }),
    ] as const;
    expect((await send(api.first, keys[0], LEAST.sms)).status).toBe(202);
    await api.admin`update tenant_usage set tested = tested + 99_990 where tenant_id = ${tenant.tenantId}`;
    const replies = await Promise.all(
      Array.from({ length: 30 }, (_, i) => send(both(i), keys[i % 3 === 0 ? 0 : 1], LEAST.sms)),
    );
    expect(statuses(replies, 202)).toHaveLength(9);
    for (const { body } of statuses(replies, 429)) {
      expect(body).toMatchObject({
        code: 'daily_limit_reached',
        limit: { name: 'testMessagesPerDay', value: 100_000 },
      });
    }
    expect(statuses(replies, 429)).toHaveLength(21);
    for (const status of [202, 202, 429])
      expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(status);
    await api.admin`update tenant_usage set day = day - 1 where tenant_id = ${tenant.tenantId}`;
    for (const key of [keys[0], tenant.key]) expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
  });

  test('at the limit, large contents are refused before they are stored', async () => {
    const tenant = await api.tenant({ messagesPerDay: 1 });
    const large = { ...LEAST.email, bodyText: 'x'.repeat(100_000) };
    const once = { 'idempotency-key': 'once' };
    const first = await send(api.first, tenant.key, large, once);
    expect([first.status, (await send(api.first, tenant.key, large)).status]).toEqual([202, 429]);
    const refusal = { status: 429, body: { code: 'daily_limit_reached', limit: { value: 1 } } };
    // Whoever stored a content would wait for the lock.
    await api.admin.begin(async (tx) => {
      await tx`lock table message_contents in exclusive mode`;
      for (const headers of [{}, { 'idempotency-key': 'another' }])
        expect(await send(api.first, tenant.key, large, headers)).toMatchObject(refusal);
      const batch = { headers: { 'x-service-key': tenant.key.text }, body: { messages: [large, LEAST.sms] } };
      expect(await request(api.first, 'POST', '/v1/messages/batch', batch)).toMatchObject(refusal);
    });
    expect((await send(api.first, tenant.key, large, once)).body).toEqual(first.body);
  });

  test('a large content is accepted soon after the backlog has room again, however often it is sent until then', async () => {
    const tenant = await api.tenant({ backlogMax: 1 });
    const later = { ...LEAST.sms, sendAt: new Date(Date.now() + 86_400_000).toISOString() };
    const { body: waiting } = await send(api.first, tenant.key, later);
    const large = { ...LEAST.email, bodyText: 'x'.repeat(100_000) };
    expect((await send(api.first, tenant.key, large)).body.code).toBe('backlog_full');
    const headers = { 'x-service-key': tenant.key.text };
    expect((await request(api.first, 'POST', `/v1/messages/${waiting.id}/cancel`, { headers })).status).toBe(
      200,
    );
    await expect
      .poll(async () => (await send(api.first, tenant.key, large)).status, { interval: 300, timeout: 8_000 })
      .toBe(202);
  });

  test('a replay is answered even when the limit is reached', async () => {
    const tenant = await api.tenant({ messagesPerDay: 1 });
    const first = await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    const again = await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    expect([first.status, again.status]).toEqual([202, 202]);
    expect(again.body).toEqual(first.body);
  });
});

test('messages of test keys fill at most half of the backlog, and live messages all of it', async () => {
  const tenant = await api.tenant({ backlogMax: 6 });
  const testKey = await api.key(tenant.tenantId, { mode: 'test' });
  const later = { ...LEAST.sms, sendAt: new Date(Date.now() + 86_400_000).toISOString() };
  for (const status of [202, 202, 202, 429])
    expect((await send(api.first, testKey, later)).status).toBe(status);
  expect((await send(other, testKey, later)).body).toMatchObject({
    code: 'backlog_full',
    limit: { name: 'backlogMax', value: 3 },
  });
  for (const status of [202, 202, 202, 429])
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(status);
});

describe('the rate limit of a key', () => {
  test('passes a burst of exactly the limit over two processes', async () => {
    const tenant = await api.tenant();
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 20 });
    const replies = await Promise.all(Array.from({ length: 60 }, (_, i) => send(both(i), key, LEAST.sms)));
    expect(statuses(replies, 202)).toHaveLength(20);
    for (const { body, headers } of statuses(replies, 429)) {
      expect(body).toMatchObject({ code: 'rate_limited', limit: { name: 'rateLimitRpm', value: 20 } });
      expect(Number(headers['retry-after'])).toSatisfy((s: number) => s >= 1 && s <= 61);
      expect(headers).toMatchObject({ 'ratelimit-limit': '20', 'ratelimit-remaining': '0' });
    }
  });

  test("applies to each key separately, and is the plan's limit for a key without its own", async () => {
    const tenant = await api.tenant({ sendRequestsPerMinute: 2 });
    const own = await api.key(tenant.tenantId, { rateLimitRpm: 3 });
    const replies = async (key: typeof own) => {
      const all = await Promise.all(Array.from({ length: 5 }, () => send(api.first, key, LEAST.sms)));
      return statuses(all, 202).length;
    };
    expect(await replies(own)).toBe(3);
    expect(await replies(tenant.key)).toBe(2);
    // The process refuses from its memory too, with the same limit in its answer.
    for (const key of [tenant.key, own]) {
      const { body } = await send(api.first, key, LEAST.sms);
      const limit =
        key === own ? { name: 'rateLimitRpm', value: 3 } : { name: 'sendRequestsPerMinute', value: 2 };
      expect(body).toMatchObject({ code: 'rate_limited', limit });
      expect(body.message).toContain(`limit '${limit.name}' of ${limit.value} is reached`);
    }
  });

  test('does not count reads', async () => {
    const tenant = await api.tenant();
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 1 });
    for (let i = 0; i < 5; i++) expect((await get(api.first, '/v1/messages', key)).status).toBe(200);
    expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
    for (let i = 0; i < 5; i++) expect((await get(api.first, '/v1/messages', key)).status).toBe(200);
  });
});

describe('sends that store no message', () => {
  const LIMIT = 70;
  const PUSH = LEAST.push;
  /** Requests that query the database and are never accepted. */
  const REFUSED: [
    name: string,
    body: (i: number) => object,
    headers: (i: number) => Record<string, string>,
    first: number,
  ][] = [
    ['without a provider', () => LEAST.email, () => ({}), 400],
    ['with an unknown provider', () => ({ ...PUSH, providerId: crypto.randomUUID() }), () => ({}), 400],
    [
      'without a provider, each with a new idempotency key',
      () => LEAST.email,
      (i) => ({ 'idempotency-key': `k${i}` }),
      400,
    ],
    [
      'with an idempotency key of another message',
      (i) => ({ ...PUSH, to: `t${i}` }),
      () => ({ 'idempotency-key': 'used' }),
      409,
    ],
    ['that are replays', () => PUSH, () => ({ 'idempotency-key': 'used' }), 202],
    ['that fail validation', () => ({ ...PUSH, to: '' }), () => ({}), 400],
  ];
  test.each(REFUSED)('%s are held to a limit of their own', async (_, body, headers, first) => {
    const tenant = await api.tenant({ batchMessagesMax: 200 }, { accounts: false });
    await seedAccount(api.admin, tenant.tenantId, { channel: 'push' });
    const key = await api.key(tenant.tenantId, { rateLimitRpm: LIMIT });
    const accepted = await send(api.first, key, PUSH, { 'idempotency-key': 'used' });
    expect(accepted.status).toBe(202);
    await spendUncounted(key, ALLOWED - LIMIT);
    const replies: Reply[] = [];
    for (let i = 0; i < LIMIT + 15; i++) replies.push(await send(api.first, key, body(i), headers(i)));
    const done = statuses(replies, first).length;
    // The client may get an answer before the process has counted the request.
    expect(done).toBeGreaterThanOrEqual(LIMIT);
    expect(done).toBeLessThanOrEqual(LIMIT + 2);
    const held = statuses(replies, 429);
    expect(held).toHaveLength(replies.length - done);
    for (const { body: said, headers: by } of held) {
      expect(said).toMatchObject({
        code: 'rate_limited',
        limit: { name: 'uncountedSendsPerMinute', value: ALLOWED },
      });
      expect(Number(by['retry-after'])).toSatisfy((s: number) => s >= 1 && s <= 61);
    }
    // The hold affects neither another key of the tenant nor reads with this key.
    expect((await send(api.first, tenant.key, PUSH)).status).toBe(202);
    expect((await get(api.first, '/v1/messages', key)).status).toBe(200);
  });

  test('over the rate limit, each with a new idempotency key, are counted until even replays are refused', async () => {
    const tenant = await api.tenant({ batchMessagesMax: 200 });
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 1 });
    await spendUncounted(key, ALLOWED - 60);
    const once = (i: number) => send(api.first, key, LEAST.sms, { 'idempotency-key': `k${i}` });
    expect([(await once(0)).status, (await once(1)).status, (await once(0)).status]).toEqual([202, 429, 202]);
    for (let i = 2; i < 65; i++) expect((await once(i)).status).toBe(429);
    // Once held, the api does not even look for a stored answer to replay.
    expect((await once(0)).status).toBe(429);
  });
});

test('a full backlog is 429 with Retry-After', async () => {
  const tenant = await api.tenant({ backlogMax: 2 });
  const replies = await Promise.all(
    Array.from({ length: 5 }, (_, i) => send(both(i), tenant.key, LEAST.sms)),
  );
  expect(statuses(replies, 202)).toHaveLength(2);
  for (const { body, headers } of statuses(replies, 429)) {
    expect(body).toMatchObject({ code: 'backlog_full', limit: { name: 'backlogMax', value: 2 } });
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
  }
});

describe('admin requests per minute', () => {
  test("of all users of a tenant pass up to exactly the tenant's limit over two processes", async () => {
    const tenant = await api.tenant({ adminRequestsPerMinute: 12 });
    const people = [await api.member(tenant, 'viewer'), await api.member(tenant, 'owner')];
    const replies = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        get(both(i), '/v1/admin/messages', { token: people[i % 2]?.token ?? '', slug: tenant.slug }),
      ),
    );
    expect(statuses(replies, 200)).toHaveLength(12);
    expect(statuses(replies, 429)).toHaveLength(18);
    for (const { headers, body } of statuses(replies, 429)) {
      expect(body).toMatchObject({
        code: 'rate_limited',
        limit: { name: 'adminRequestsPerMinute', value: 12 },
      });
      expect(Number(headers['retry-after'])).toSatisfy((s: number) => s >= 1 && s <= 61);
    }
    expect(statuses(replies, 200)[0]?.headers).toMatchObject({ 'ratelimit-limit': '12' });
  });

  test('the default is 60 per tenant', async () => {
    const tenant = await api.tenant();
    await api.admin`delete from tenant_limits where tenant_id = ${tenant.tenantId}`;
    const viewer = await api.member(tenant, 'viewer');
    const { headers } = await get(api.first, '/v1/admin/messages', {
      token: viewer.token,
      slug: tenant.slug,
    });
    expect(headers['ratelimit-limit']).toBe('60');
  });

  test('calls without a tenant are limited to 60 per user', async () => {
    const headers = { authorization: `Bearer ${await api.token('somebody')}` };
    const replies = await Promise.all(
      Array.from({ length: 65 }, (_, i) => request(both(i), 'GET', '/v1/admin/me', { headers })),
    );
    expect(statuses(replies, 200)).toHaveLength(60);
    expect(statuses(replies, 429)).toHaveLength(5);
    expect(statuses(replies, 429)[0]?.body.limit).toEqual({ name: 'userRequestsPerMinute', value: 60 });
  });
});

describe('idempotency', () => {
  test('fifty parallel calls with one key over two processes create one message and get one answer', async () => {
    const tenant = await api.tenant();
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        send(both(i), tenant.key, LEAST.sms, { 'idempotency-key': 'once' }),
      ),
    );
    expect(statuses(replies, 202)).toHaveLength(50);
    expect(new Set(replies.map((reply) => reply.body.id)).size).toBe(1);
    expect(replies.filter((reply) => reply.headers['idempotent-replayed'] === 'true')).toHaveLength(49);
    expect(await messageCount(tenant.tenantId)).toBe(1);
  });

  test('a replay returns the original status and body and creates nothing', async () => {
    const tenant = await api.tenant();
    const first = await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    const again = await send(other, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    expect(again.status).toBe(202);
    expect(again.body).toEqual(first.body);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await messageCount(tenant.tenantId)).toBe(1);
  });

  test('a replay returns what another release answered, with fields that this one lacks or requires', async () => {
    const tenant = await api.tenant();
    const once = { ...LEAST.sms, idempotencyKey: 'k' };
    const { body } = await send(api.first, tenant.key, once);
    const { enqueuedAt: _, ...stored } = { ...body, color: 'red' };
    await api.admin`
      update idempotency_keys set response = ${JSON.stringify(stored)}::text::json where tenant_id = ${tenant.tenantId}`;
    const again = await send(other, tenant.key, once);
    expect([again.status, again.body]).toEqual([202, stored]);
    const batch = await request(other, 'POST', '/v1/messages/batch', {
      body: { messages: [once] },
      headers: { 'x-service-key': tenant.key.text },
    });
    expect([batch.status, batch.body.items]).toEqual([202, [{ index: 0, ...stored, replayed: true }]]);
  });

  test('replays beyond the limit of a key leave all of it to new messages, until their own limit is reached', async () => {
    const tenant = await api.tenant({ batchMessagesMax: 200 });
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 2 });
    const once = { ...LEAST.sms, idempotencyKey: 'k' };
    for (let i = 0; i < 62; i++) expect((await send(api.first, key, once)).status).toBe(202);
    expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
    await spendUncounted(key, ALLOWED);
    const held = await send(api.first, key, once);
    expect([held.status, held.body.code, held.body.limit]).toEqual([
      429,
      'rate_limited',
      { name: 'uncountedSendsPerMinute', value: ALLOWED },
    ]);
    expect(Number(held.headers['retry-after'])).toBeGreaterThan(0);
  });

  test('the same key with a different payload is 409', async () => {
    const tenant = await api.tenant();
    await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    const reply = await send(other, tenant.key, { ...LEAST.sms, body: 'Other' }, { 'idempotency-key': 'k' });
    expect(reply).toMatchObject({
      status: 409,
      body: {
        statusCode: 409,
        code: 'idempotency_mismatch',
        message: 'Idempotency key was used with a different payload',
      },
    });
  });

  test('header and body, bare and quoted, camelCase and snake_case name the same key', async () => {
    const tenant = await api.tenant();
    const ids = [
      await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'same' }),
      await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': '"same"' }),
      await send(api.first, tenant.key, { ...LEAST.sms, idempotency_key: 'same' }),
      await send(api.first, tenant.key, { ...LEAST.sms, idempotencyKey: '"same"' }),
      await send(
        api.first,
        tenant.key,
        { ...LEAST.sms, idempotencyKey: 'same' },
        { 'idempotency-key': 'same' },
      ),
    ].map((reply) => reply.body.id);
    expect(new Set(ids).size).toBe(1);
  });

  test('a payload in another spelling or order, or with unknown fields, counts as the same payload', async () => {
    const tenant = await api.tenant();
    const first = await send(
      api.first,
      tenant.key,
      { ...LEAST.sms, externalId: 'e' },
      { 'idempotency-key': 'k' },
    );
    const again = await send(
      api.first,
      tenant.key,
      { external_id: 'e', unknown: 1, ...LEAST.sms },
      { 'idempotency-key': 'k' },
    );
    expect(again.body).toEqual(first.body);
  });

  test('different keys in header and body are 400', async () => {
    const tenant = await api.tenant();
    const reply = await send(
      api.first,
      tenant.key,
      { ...LEAST.sms, idempotency_key: 'a' },
      { 'idempotency-key': 'b' },
    );
    expect(reply).toMatchObject({ status: 400, body: { code: 'idempotency_key_conflict' } });
  });

  test('a key has 1 to 255 printable ASCII characters', async () => {
    const tenant = await api.tenant();
    expect(
      (await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k'.repeat(255) })).status,
    ).toBe(202);
    for (const bad of ['', '""', 'k'.repeat(256), 'kéy']) {
      expect((await send(api.first, tenant.key, { ...LEAST.sms, idempotency_key: bad })).status).toBe(400);
    }
  });

  test('the same key in two tenants creates two messages', async () => {
    const [one, two] = [await api.tenant(), await api.tenant()];
    const first = await send(api.first, one.key, LEAST.sms, { 'idempotency-key': 'k' });
    const second = await send(api.first, two.key, LEAST.sms, { 'idempotency-key': 'k' });
    expect(second.status).toBe(202);
    expect(second.body.id).not.toBe(first.body.id);
  });

  test('a refused request leaves its key free', async () => {
    const tenant = await api.tenant({ messagesPerDay: 1 });
    await send(api.first, tenant.key, LEAST.sms);
    expect((await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' })).status).toBe(429);
    await api.admin`update tenant_usage set used = 0 where tenant_id = ${tenant.tenantId}`;
    const later = await send(
      api.first,
      tenant.key,
      { ...LEAST.sms, body: 'Other' },
      { 'idempotency-key': 'k' },
    );
    expect(later.status).toBe(202);
    expect(later.headers['idempotent-replayed']).toBeUndefined();
  });

  test('a replay works after the provider is disabled', async () => {
    const tenant = await api.tenant();
    const first = await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' });
    await api.admin`update provider_accounts set status = 'disabled' where tenant_id = ${tenant.tenantId}`;
    api.first.notice('account', { tenantId: tenant.tenantId });
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(400);
    expect((await send(api.first, tenant.key, LEAST.sms, { 'idempotency-key': 'k' })).body).toEqual(
      first.body,
    );
    expect(
      (await send(api.first, tenant.key, { ...LEAST.sms, body: 'x' }, { 'idempotency-key': 'k' })).status,
    ).toBe(409);
  });
});
