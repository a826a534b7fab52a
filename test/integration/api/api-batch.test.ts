import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  get,
  LEAST,
  request,
  send,
  startTestApi,
  type ApiTenant,
  type Instance,
  type Reply,
  type TestApi,
} from '#test/support/api.ts';
import { moveSuspension } from '#test/support/seed.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
let other: Instance;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  other = await api.instance();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const { sms, email } = LEAST;
const INVALID = { channel: 'sms', to: 'nobody', body: 'Hello' };
const both = (i: number): Instance => (i % 2 === 0 ? api.first : other);
const times = <T>(n: number, item: T): T[] => Array.from({ length: n }, () => item);

function sendBatch(
  key: TestKey,
  body: unknown,
  { via = api.first, headers = {} }: { via?: Instance; headers?: Record<string, string> } = {},
): Promise<Reply> {
  return request(via, 'POST', '/v1/messages/batch', {
    body,
    headers: { 'x-service-key': key.text, ...headers },
  });
}

type Item = {
  index: number;
  id?: string;
  replayed?: true;
  error?: { code: string; statusCode: number; retryAfter?: number };
};
const itemsOf = (reply: Reply) => reply.body.items as Item[];
const codesOf = (reply: Reply) => itemsOf(reply).map(({ error }) => error?.code ?? 'taken');
const idsOf = (reply: Reply) => itemsOf(reply).flatMap(({ id }) => (id === undefined ? [] : [id]));

async function countOf(
  table: 'messages' | 'live_messages' | 'message_contents' | 'unsettled_contents',
  tenantId: string,
) {
  const [row] =
    await api.admin`select count(*)::integer as n from ${api.admin(table)} where tenant_id = ${tenantId}`;
  return row?.['n'] as number;
}
const messageCount = (tenantId: string) => countOf('messages', tenantId);

describe('a permissive batch', () => {
  test('stores the valid messages in one commit and reports a result for each item', async () => {
    const fresh = await api.tenant();
    const reply = await sendBatch(fresh.key, {
      messages: [sms, INVALID, email, 'none', { ...sms, to: null }],
    });
    expect(reply.status).toBe(202);
    expect(reply.body.batchId).toMatch(UUID_V4);
    expect(codesOf(reply)).toEqual([
      'taken',
      'validation_failed',
      'taken',
      'validation_failed',
      'missing_field',
    ]);
    expect(itemsOf(reply).map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
    expect(itemsOf(reply)[0]).toMatchObject({ status: 'queued', channel: 'sms', to: sms.to, segments: 1 });
    expect(itemsOf(reply)[3]?.error).toMatchObject({
      message: 'Message must be a JSON object',
      details: [{ field: 'body', rule: 'type', message: 'Message must be a JSON object' }],
    });
    expect(itemsOf(reply)[1]?.error).toMatchObject({
      statusCode: 400,
      details: [{ field: 'to', rule: 'e164' }],
    });
    const rows = await api.admin`
      select m.xmin::text as commit, m.batch_id from messages m where m.tenant_id = ${fresh.tenantId}`;
    expect(rows).toHaveLength(2);
    expect(new Set(rows.map(({ commit }) => commit as string)).size).toBe(1);
    expect(rows.every(({ batch_id }) => batch_id === reply.body.batchId)).toBe(true);
    expect(await countOf('live_messages', fresh.tenantId)).toBe(2);
  });

  test('is counted in metrics by mode and result', async () => {
    const counts = async () => {
      const text = await api.first.metrics.registry.metrics();
      const lines = text.matchAll(/despatch_batches_total\{mode="(\w+)",result="(\w+)"\} (\d+)/g);
      return Object.fromEntries([...lines].map(([, mode, result, n]) => [`${mode} ${result}`, Number(n)]));
    };
    const before = await counts();
    const headers = { 'idempotency-key': crypto.randomUUID() };
    await sendBatch(tenant.key, { messages: [sms, email] }, { headers });
    await sendBatch(tenant.key, { messages: [sms, email] }, { headers });
    await sendBatch(tenant.key, { messages: [sms, INVALID] });
    await sendBatch(tenant.key, { messages: [INVALID, INVALID] });
    await sendBatch(tenant.key, { mode: 'strict', messages: [sms, INVALID] });
    const after = await counts();
    const grown = Object.keys(after).filter((name) => after[name] !== before[name]);
    expect(grown.map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)])).toEqual([
      ['permissive whole', 1],
      ['permissive partial', 1],
      ['permissive refused', 1],
      ['permissive replayed', 1],
      ['strict refused', 1],
    ]);
  });

  test('wakes workers once per priority', async () => {
    const fresh = await api.tenant();
    const messages = [sms, { ...sms, priority: 'high' }, sms];
    const reply = await sendBatch(fresh.key, { messages });
    const [first, high] = idsOf(reply);
    const wakes = () => api.first.wakes.filter(({ payload }) => String(payload).includes(fresh.tenantId));
    await expect
      .poll(() => wakes().map(({ id, kind }) => ({ id, kind })))
      .toEqual([
        { id: first, kind: 'normal' },
        { id: high, kind: 'high' },
      ]);
  });

  test('can be listed by its batchId, which each message record contains', async () => {
    const fresh = await api.tenant();
    await send(api.first, fresh.key, sms);
    const reply = await sendBatch(fresh.key, { messages: [sms, email, sms] });
    await sendBatch(fresh.key, { messages: [sms] });
    const { batchId } = reply.body;
    const member = await api.member(fresh, 'viewer');
    const lists = [
      await get(api.first, `/v1/messages?batchId=${batchId}`, fresh.key),
      await get(api.first, `/v1/admin/messages?batch_id=${batchId.toUpperCase()}`, {
        ...member,
        slug: fresh.slug,
      }),
    ];
    for (const { body } of lists) {
      const listed = body.items as { id: string; batchId: string }[];
      expect(new Set(listed.map(({ id }) => id))).toEqual(new Set(idsOf(reply)));
      expect(listed.every((item) => item.batchId === batchId)).toBe(true);
    }
    const stranger = await get(api.first, `/v1/messages?batchId=${batchId}`, tenant.key);
    expect(stranger.body.items).toEqual([]);
    const single = await send(api.first, fresh.key, sms);
    expect((await get(api.first, `/v1/messages/${single.body.id}`, fresh.key)).body.batchId).toBeNull();
  });

  test('reports warnings for each item and for the batch', async () => {
    const reply = await sendBatch(tenant.key, { messages: [{ ...sms, ttl_second: 1 }], modus: 'strict' });
    expect(reply.body.warnings).toMatchObject([{ field: 'modus' }]);
    expect(reply.body.items[0].warnings).toMatchObject([{ field: 'ttl_second' }]);
  });

  test('of a test key is in test mode and needs no provider', async () => {
    const fresh = await api.tenant({ messagesPerDay: 1 }, { accounts: false });
    const testKey = await api.key(fresh.tenantId, { mode: 'test' });
    const reply = await sendBatch(testKey, { messages: times(3, sms) });
    expect(reply.body.items).toMatchObject(times(3, { test: true, status: 'queued' }));
    expect(codesOf(await sendBatch(fresh.key, { messages: times(2, sms) }))).toEqual(
      times(2, 'provider_not_configured'),
    );
  });
});

test('at most ten errors are reported for one message of a batch', async () => {
  const metadata = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`name ${i}`, {}]));
  const reply = await sendBatch(tenant.key, { messages: [{ ...sms, metadata }, sms] });
  expect(codesOf(reply)).toEqual(['validation_failed', 'taken']);
  expect(reply.body.items[0].error.details).toHaveLength(10);
});

describe('a strict batch', () => {
  test('stores all messages or none, and lists every error', async () => {
    const fresh = await api.tenant();
    const bad = await sendBatch(fresh.key, {
      mode: 'strict',
      messages: [sms, INVALID, { channel: 'sms', to: sms.to }, { ...sms, providerId: tenant.tenantId }, 7],
    });
    expect(bad).toMatchObject({ status: 400, body: { code: 'validation_failed' } });
    expect(bad.body.details).toMatchObject([
      { field: 'messages.1.to', rule: 'e164' },
      { field: 'messages.2.body', rule: 'required' },
      { field: 'messages.3.providerId', rule: 'provider' },
      { field: 'messages.4', rule: 'type', message: 'Message must be a JSON object' },
    ]);
    expect(await messageCount(fresh.tenantId)).toBe(0);
    const good = await sendBatch(fresh.key, { mode: 'strict', messages: [sms, email] });
    expect(codesOf(good)).toEqual(['taken', 'taken']);
    expect(await messageCount(fresh.tenantId)).toBe(2);
  });

  test('that exceeds the daily limit stores no message, no count and no idempotency key', async () => {
    const fresh = await api.tenant({ messagesPerDay: 5 });
    const keyed = (i: number) => ({ ...sms, idempotencyKey: `m${i}` });
    const batch = { mode: 'strict', messages: [0, 1, 2, 3, 4, 5].map(keyed), idempotencyKey: 'whole' };
    const refused = await sendBatch(fresh.key, batch);
    expect(refused).toMatchObject({
      status: 429,
      body: { code: 'daily_limit_reached', limit: { name: 'messagesPerDay', value: 5 } },
    });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(await messageCount(fresh.tenantId)).toBe(0);
    const [keys] = await api.admin`
      select count(*)::integer as n from idempotency_keys where tenant_id = ${fresh.tenantId}`;
    expect(keys?.['n']).toBe(0);
    const fits = { ...batch, messages: batch.messages.slice(1) };
    expect(codesOf(await sendBatch(fresh.key, fits))).toEqual(times(5, 'taken'));
    expect((await send(api.first, fresh.key, sms)).body.code).toBe('daily_limit_reached');
  });

  test('larger than the rate limit is 400; one for which too few requests are left is 429 with Retry-After', async () => {
    const fresh = await api.tenant();
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 10 });
    const strict = (n: number) => sendBatch(key, { mode: 'strict', messages: times(n, sms) });
    expect(await strict(11)).toMatchObject({
      status: 400,
      body: {
        details: [{ field: 'messages', rule: 'max', message: expect.stringContaining('rateLimitRpm') }],
      },
    });
    expect((await strict(6)).status).toBe(202);
    const late = await strict(5);
    expect(late).toMatchObject({ status: 429, body: { limit: { name: 'rateLimitRpm', value: 10 } } });
    expect(Number(late.headers['retry-after'])).toSatisfy((s: number) => s >= 55 && s <= 61);
    // The refused batch used nothing of the limit.
    expect((await strict(4)).status).toBe(202);
    expect(await messageCount(fresh.tenantId)).toBe(10);
  });

  test('waits only for the room that its new messages need, not for its replays', async () => {
    const fresh = await api.tenant();
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 10 });
    const keyed = Array.from({ length: 9 }, (_, i) => ({ ...sms, idempotencyKey: `m${i}` }));
    expect((await sendBatch(key, { messages: [sms] })).status).toBe(202);
    // The first message leaves the window half a minute before the others.
    await api.admin`
      update rate_windows set second = second - 30 where subject = (
        select api_key_id from messages where tenant_id = ${fresh.tenantId} limit 1)`;
    expect((await sendBatch(key, { messages: keyed })).status).toBe(202);
    const late = await sendBatch(key, { mode: 'strict', messages: [...keyed, sms] });
    expect(late).toMatchObject({ status: 429, body: { limit: { name: 'rateLimitRpm', value: 10 } } });
    expect(Number(late.headers['retry-after'])).toSatisfy((s: number) => s >= 1 && s <= 31);
  });
});

describe('a message that the database cannot store', () => {
  const UNSTORABLE = '+15550001313';
  const UNSTORABLE_MAIL = 'unstorable@example.com';
  beforeAll(
    () => api.admin`
      alter table messages add constraint planted check (recipient not in ('+15550001313', 'unstorable@example.com'))`,
  );
  afterAll(() => api.admin`alter table messages drop constraint planted`);
  const fresh = (limits = {}) => api.tenant(limits);
  const messages = [
    ...times(7, sms),
    { ...sms, to: UNSTORABLE, idempotencyKey: 'bad' },
    email,
    INVALID,
    { ...sms, body: 'x'.repeat(1_000), to: UNSTORABLE },
    { ...sms, idempotencyKey: 'good' },
  ];
  const codes = [
    ...times(7, 'taken'),
    'internal_error',
    'taken',
    'validation_failed',
    'internal_error',
    'taken',
  ];

  test('fails alone in a permissive batch; the others are stored in one commit, and a replay is identical', async () => {
    const own = await fresh();
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const reply = await sendBatch(own.key, { messages }, { headers });
    expect(reply.status).toBe(202);
    expect(codesOf(reply)).toEqual(codes);
    expect(itemsOf(reply)[7]?.error).toMatchObject({ statusCode: 500 });
    expect(JSON.stringify(reply.body)).not.toContain('planted');
    const rows = await api.admin`
      select distinct xmin::text as commit from messages where tenant_id = ${own.tenantId}`;
    expect(rows).toHaveLength(1);
    expect(await messageCount(own.tenantId)).toBe(9);
    expect(await countOf('live_messages', own.tenantId)).toBe(9);
    const again = await sendBatch(own.key, { messages }, { headers });
    expect([again.headers['idempotent-replayed'], again.body]).toEqual(['true', reply.body]);
    const wakes = () => api.first.wakes.filter(({ payload }) => String(payload).includes(own.tenantId));
    await expect.poll(wakes).toHaveLength(1);
    // The idempotency key of a message that was not stored is not kept.
    const single = await send(api.first, own.key, sms, { 'idempotency-key': 'bad' });
    expect([single.status, single.headers['idempotent-replayed']]).toEqual([202, undefined]);
  });

  test('does not count toward the daily limit and leaves no stored content', async () => {
    const own = await fresh({ messagesPerDay: 2 });
    const large = { ...email, to: UNSTORABLE_MAIL, bodyText: 'x'.repeat(100_000) };
    const reply = await sendBatch(own.key, { messages: [large, sms, sms, sms] });
    expect(codesOf(reply)).toEqual(['internal_error', 'taken', 'taken', 'daily_limit_reached']);
    await expect.poll(() => countOf('message_contents', own.tenantId)).toBe(0);
    await expect.poll(() => countOf('unsettled_contents', own.tenantId)).toBe(0);
  });

  test('makes a strict batch fail with 500 and store nothing', async () => {
    const own = await fresh();
    const reply = await sendBatch(own.key, { mode: 'strict', messages: [sms, { ...sms, to: UNSTORABLE }] });
    expect([reply.status, reply.body.code]).toEqual([500, 'internal_error']);
    expect(await messageCount(own.tenantId)).toBe(0);
  });

  test('is reported per item with 202 even if the batch has no other message', async () => {
    const own = await fresh();
    const reply = await sendBatch(own.key, { messages: times(2, { ...sms, to: UNSTORABLE }) });
    expect([reply.status, codesOf(reply)]).toEqual([202, ['internal_error', 'internal_error']]);
  });
});

describe('limits', () => {
  test('the plan limits the number of messages in a batch', async () => {
    const fresh = await api.tenant({ batchMessagesMax: 3 });
    const reply = await sendBatch(fresh.key, { messages: times(4, sms) });
    expect(reply).toMatchObject({ status: 400, body: { details: [{ field: 'messages', rule: 'max' }] } });
    expect((await sendBatch(fresh.key, { messages: times(3, sms) })).status).toBe(202);
    expect((await sendBatch(fresh.key, { messages: [] })).status).toBe(400);
    expect((await sendBatch(fresh.key, {})).body.code).toBe('missing_field');
  });

  test('parallel batches and single messages over two processes pass up to exactly the daily limit', async () => {
    const fresh = await api.tenant({ messagesPerDay: 50 });
    const replies = await Promise.all([
      ...Array.from({ length: 8 }, (_, i) =>
        sendBatch(fresh.key, { messages: times(9, sms) }, { via: both(i) }),
      ),
      ...Array.from({ length: 12 }, (_, i) => send(both(i), fresh.key, sms)),
    ]);
    const passed = replies.flatMap((reply) =>
      reply.status !== 202 ? [] : 'items' in reply.body ? idsOf(reply) : [reply.body.id as string],
    );
    expect(passed).toHaveLength(50);
    expect(await messageCount(fresh.tenantId)).toBe(50);
    for (const reply of replies) {
      const codes =
        reply.status === 202 ? ('items' in reply.body ? codesOf(reply) : ['taken']) : [reply.body.code];
      expect(codes.every((code) => code === 'taken' || code === 'daily_limit_reached')).toBe(true);
    }
    expect((await sendBatch(fresh.key, { messages: [sms] })).status).toBe(429);
  });

  test('parallel strict batches never exceed the daily limit, and each is stored whole or not at all', async () => {
    const fresh = await api.tenant({ messagesPerDay: 30 });
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        sendBatch(fresh.key, { mode: 'strict', messages: times(7, sms) }, { via: both(i) }),
      ),
    );
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(4);
    expect(await messageCount(fresh.tenantId)).toBe(28);
  });

  test("each item counts toward the rate limit of its key and the tenant's backlog", async () => {
    const fresh = await api.tenant({ backlogMax: 7 });
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 5 });
    const limited = await sendBatch(key, { messages: times(8, sms) });
    expect(codesOf(limited)).toEqual([...times(5, 'taken'), ...times(3, 'rate_limited')]);
    // The five accepted messages leave the window in a minute.
    const waits = itemsOf(limited).flatMap(({ error }) => (error === undefined ? [] : [error.retryAfter]));
    expect(waits).toEqual(times(3, 61));
    expect(limited.headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '0' });
    expect(itemsOf(limited)[7]?.error).toMatchObject({
      statusCode: 429,
      limit: { name: 'rateLimitRpm', value: 5 },
      retryAfter: expect.any(Number),
    });
    // The batch as a whole is refused because no message had room: clients wait as with a single message.
    const full = await sendBatch(key, { messages: times(2, sms) });
    expect(full).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(Number(full.headers['retry-after'])).toBeGreaterThan(0);
    expect(codesOf(await sendBatch(fresh.key, { messages: times(4, sms) }))).toEqual([
      ...times(2, 'taken'),
      ...times(2, 'backlog_full'),
    ]);
  });

  test.each(['permissive', 'strict'])(
    'invalid messages in a %s batch count like single ones: a key that sends many is rate limited',
    async (mode) => {
      const fresh = await api.tenant({ batchMessagesMax: 200 });
      const key = await api.key(fresh.tenantId, { rateLimitRpm: 700 });
      const faulty = { mode, messages: times(200, INVALID) };
      const status = mode === 'strict' ? 400 : 202;
      // A batch counts as a quarter of what the key is allowed at most, so that its sender can correct it.
      for (const _ of times(3, null)) expect((await sendBatch(key, faulty)).status).toBe(status);
      expect((await send(api.first, key, sms)).status).toBe(202);
      expect((await sendBatch(key, faulty)).status).toBe(status);
      const held = await sendBatch(key, { messages: [sms] });
      expect(held).toMatchObject({
        status: 429,
        body: { code: 'rate_limited', limit: { name: 'uncountedSendsPerMinute', value: 700 } },
      });
      expect((await send(api.first, fresh.key, sms)).status).toBe(202);
    },
  );

  test('messages that a limit refuses, and those of replays, count like single ones too', async () => {
    const fresh = await api.tenant({ backlogMax: 152, batchMessagesMax: 200 });
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 600 });
    const once = { headers: { 'idempotency-key': 'once' } };
    const full = { messages: times(151, sms) };
    expect((await sendBatch(key, full, once)).status).toBe(202);
    expect(codesOf(await sendBatch(key, full))).toEqual(['taken', ...times(150, 'backlog_full')]);
    for (const _ of times(3, null))
      expect((await sendBatch(key, full, once)).headers['idempotent-replayed']).toBe('true');
    expect(await sendBatch(key, full, once)).toMatchObject({
      status: 429,
      body: { code: 'rate_limited', limit: { name: 'uncountedSendsPerMinute', value: 600 } },
    });
  });

  test('a batch that is too large for one request does not count with its messages', async () => {
    const fresh = await api.tenant({ batchMessagesMax: 150 });
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 60 });
    for (const _ of times(8, null))
      expect((await sendBatch(key, { messages: times(151, sms) })).status).toBe(400);
    expect((await send(api.first, key, sms)).status).toBe(202);
  });

  test('a batch over the rate limit is refused before its messages are read, unless one may be a replay', async () => {
    const fresh = await api.tenant();
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 5 });
    expect(codesOf(await sendBatch(key, { messages: times(6, sms) }))).toEqual([
      ...times(5, 'taken'),
      'rate_limited',
    ]);
    expect(await sendBatch(key, { messages: [sms, INVALID] })).toMatchObject({
      status: 429,
      body: { code: 'rate_limited' },
    });
    for (const name of ['idempotencyKey', 'idempotency_key']) {
      const mixed = await sendBatch(key, { messages: [{ ...sms, [name]: 'own' }, INVALID] });
      expect(codesOf(mixed)).toEqual(['rate_limited', 'validation_failed']);
    }
  });

  test('a batch that could never be accepted is 400 even while its key is over the rate limit', async () => {
    const fresh = await api.tenant({ batchMessagesMax: 8 });
    const key = await api.key(fresh.tenantId, { rateLimitRpm: 5 });
    expect(codesOf(await sendBatch(key, { messages: times(6, sms) }))).toContain('rate_limited');
    const ofSize = (mode: string, n: number) => sendBatch(key, { mode, messages: times(n, sms) });
    const details = (limit: string) => [{ field: 'messages', message: expect.stringContaining(limit) }];
    expect(await ofSize('strict', 6)).toMatchObject({
      status: 400,
      body: { details: details('rateLimitRpm') },
    });
    expect(await ofSize('permissive', 9)).toMatchObject({
      status: 400,
      body: { details: details('batchMessagesMax') },
    });
    expect((await ofSize('strict', 5)).status).toBe(429);
    expect((await ofSize('permissive', 6)).status).toBe(429);
  });

  test('a batch of a suspended tenant stores nothing', async () => {
    const fresh = await api.tenant();
    expect((await sendBatch(fresh.key, { messages: [sms] })).status).toBe(202);
    await moveSuspension(api.admin, fresh.tenantId, 'manual');
    // This process may still have an outdated copy of the tenant.
    const reply = await sendBatch(fresh.key, { messages: [sms, INVALID] });
    expect([reply.status, reply.status === 202 ? codesOf(reply)[0] : reply.body.code]).toEqual(
      reply.status === 202 ? [202, 'tenant_suspended'] : [403, 'tenant_suspended'],
    );
    expect(await sendBatch(fresh.key, { messages: [sms] })).toMatchObject({ status: 403 });
    expect(await messageCount(fresh.tenantId)).toBe(1);
  });
});

describe("the request's idempotency key", () => {
  test('replays the first answer to the same body in any spelling, and refuses another body', async () => {
    const fresh = await api.tenant();
    const headers = { 'idempotency-key': 'k' };
    const body = { messages: [{ ...sms, externalId: 'a' }, INVALID] };
    const first = await sendBatch(fresh.key, body, { headers });
    const again = await sendBatch(fresh.key, body, { headers, via: other });
    const spelt = await sendBatch(fresh.key, {
      messages: [{ ...sms, external_id: 'a', from: null }, INVALID],
      idempotency_key: 'k',
    });
    expect([first.status, again.status, spelt.status]).toEqual([202, 202, 202]);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect([again.headers['idempotent-replayed'], spelt.headers['idempotent-replayed']]).toEqual([
      'true',
      'true',
    ]);
    expect([again.body, spelt.body]).toEqual([first.body, first.body]);
    for (const messages of [
      [sms, INVALID],
      [{ ...sms, externalId: 'a' }],
      [{ ...sms, externalId: 'a' }, 'none'],
    ]) {
      expect(await sendBatch(fresh.key, { messages }, { headers })).toMatchObject({
        status: 409,
        body: { code: 'idempotency_mismatch' },
      });
    }
    expect((await sendBatch(fresh.key, { ...body, mode: 'strict' }, { headers })).status).toBe(409);
    expect(await messageCount(fresh.tenantId)).toBe(1);
  });

  test('compares the payload of invalid messages too', async () => {
    const fresh = await api.tenant();
    const headers = { 'idempotency-key': 'k' };
    const first = await sendBatch(
      fresh.key,
      { messages: [sms, { ...INVALID, externalId: 'a' }] },
      { headers },
    );
    const spelt = { messages: [sms, { ...INVALID, external_id: 'a', from: null }] };
    expect(await sendBatch(fresh.key, spelt, { headers })).toMatchObject({ status: 202, body: first.body });
    const another = { messages: [sms, { ...INVALID, externalId: 'b' }] };
    expect((await sendBatch(fresh.key, another, { headers })).status).toBe(409);
  });

  test('creates one batch from concurrent requests over two processes', async () => {
    const fresh = await api.tenant();
    const headers = { 'idempotency-key': 'race' };
    const body = { messages: [...times(20, sms), INVALID] };
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, i) => sendBatch(fresh.key, body, { headers, via: both(i) })),
    );
    expect(replies.map(({ status }) => status)).toEqual(times(10, 202));
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
    expect(await messageCount(fresh.tenantId)).toBe(20);
  });

  test('is replayed at the daily limit and after the provider is disabled, and counts nothing', async () => {
    const fresh = await api.tenant({ messagesPerDay: 2, batchMessagesMax: 2 });
    const headers = { 'idempotency-key': 'k' };
    const body = { messages: times(2, sms) };
    const first = await sendBatch(fresh.key, body, { headers });
    await api.admin`update provider_accounts set status = 'disabled' where tenant_id = ${fresh.tenantId}`;
    api.first.notice('tenant', { tenantId: fresh.tenantId });
    for (let i = 0; i < 2; i++)
      expect((await sendBatch(fresh.key, body, { headers })).body).toEqual(first.body);
    expect(await messageCount(fresh.tenantId)).toBe(2);
  });

  test('can be used again after a batch of which no message was accepted', async () => {
    const fresh = await api.tenant();
    const headers = { 'idempotency-key': 'k' };
    expect(codesOf(await sendBatch(fresh.key, { messages: [INVALID] }, { headers }))).toEqual([
      'validation_failed',
    ]);
    expect(codesOf(await sendBatch(fresh.key, { messages: [sms] }, { headers }))).toEqual(['taken']);
  });

  test('is scoped to its tenant, mode and route', async () => {
    const headers = { 'idempotency-key': 'shared' };
    const [one, two] = [await api.tenant(), await api.tenant()];
    const testKey = await api.key(one.tenantId, { mode: 'test' });
    const body = { messages: [sms] };
    const replies = [
      await sendBatch(one.key, body, { headers }),
      await sendBatch(two.key, body, { headers }),
      await sendBatch(testKey, body, { headers }),
    ];
    const single = await send(api.first, one.key, sms, headers);
    expect(new Set([...replies.flatMap(idsOf), single.body.id]).size).toBe(4);
  });
});

describe("a message's own idempotency key", () => {
  test('is shared with POST /v1/messages, in either order', async () => {
    const fresh = await api.tenant();
    const single = await send(api.first, fresh.key, { ...sms, idempotencyKey: 'a' });
    const batch = await sendBatch(fresh.key, {
      messages: [
        { ...sms, idempotency_key: '"a"' },
        { ...sms, idempotencyKey: 'b' },
        { ...email, idempotencyKey: 'a' },
      ],
    });
    expect(codesOf(batch)).toEqual(['taken', 'taken', 'idempotency_mismatch']);
    expect(itemsOf(batch)[0]).toEqual({ index: 0, ...single.body, replayed: true });
    expect(itemsOf(batch)[2]?.error).toMatchObject({ statusCode: 409 });
    const later = await send(other, fresh.key, sms, { 'idempotency-key': 'b' });
    expect(later.headers['idempotent-replayed']).toBe('true');
    expect(later.body.id).toBe(itemsOf(batch)[1]?.id);
    expect(await messageCount(fresh.tenantId)).toBe(2);
  });

  test('that appears twice in a batch creates one message', async () => {
    const fresh = await api.tenant();
    const keyed = { ...sms, idempotencyKey: 'k' };
    const reply = await sendBatch(fresh.key, { messages: [keyed, keyed, { ...keyed, body: 'Other' }] });
    expect(codesOf(reply)).toEqual(['taken', 'taken', 'idempotency_mismatch']);
    expect(new Set(idsOf(reply)).size).toBe(1);
    expect(await messageCount(fresh.tenantId)).toBe(1);
  });

  test('in a strict batch allows a replay and refuses another payload', async () => {
    const fresh = await api.tenant();
    const keyed = { ...sms, idempotencyKey: 'k' };
    const single = await send(api.first, fresh.key, keyed);
    const bad = await sendBatch(fresh.key, { mode: 'strict', messages: [sms, { ...keyed, body: 'Other' }] });
    expect(bad).toMatchObject({
      status: 400,
      body: { details: [{ field: 'messages.1', rule: 'idempotency_mismatch' }] },
    });
    // Beside an invalid item too.
    const messages = [INVALID, { ...keyed, body: 'Other' }, keyed, { ...sms, idempotencyKey: 'new' }];
    const worse = await sendBatch(fresh.key, { mode: 'strict', messages });
    expect(worse.body.details).toMatchObject([
      { field: 'messages.0.to', rule: 'e164' },
      { field: 'messages.1', rule: 'idempotency_mismatch' },
    ]);
    // And if another item of the batch has the key.
    const own = { ...sms, idempotencyKey: 'own' };
    const shared = [own, INVALID, { ...own, body: 'Other' }, own];
    const worst = await sendBatch(fresh.key, { mode: 'strict', messages: shared });
    expect(worst.body.details).toMatchObject([
      { field: 'messages.1.to', rule: 'e164' },
      { field: 'messages.2', rule: 'idempotency_mismatch' },
    ]);
    const good = await sendBatch(fresh.key, { mode: 'strict', messages: [sms, keyed] });
    expect(idsOf(good)[1]).toBe(single.body.id);
    expect(await messageCount(fresh.tenantId)).toBe(2);
  });

  test('creates one message from concurrent batches and single requests', async () => {
    const fresh = await api.tenant();
    const keyed = Array.from({ length: 6 }, (_, i) => ({ ...sms, idempotencyKey: `r${i}` }));
    const replies = await Promise.all([
      ...Array.from({ length: 6 }, (_, i) =>
        sendBatch(fresh.key, { messages: i % 2 === 0 ? keyed : keyed.toReversed() }, { via: both(i) }),
      ),
      ...keyed.map((message, i) => send(both(i), fresh.key, message)),
    ]);
    expect(replies.every(({ status }) => status === 202)).toBe(true);
    expect(await messageCount(fresh.tenantId)).toBe(6);
  });

  test('is replayed after the provider is disabled', async () => {
    const fresh = await api.tenant();
    const keyed = { ...sms, idempotencyKey: 'k' };
    const single = await send(api.first, fresh.key, keyed);
    await api.admin`update provider_accounts set status = 'disabled' where tenant_id = ${fresh.tenantId}`;
    api.first.notice('tenant', { tenantId: fresh.tenantId });
    const reply = await sendBatch(fresh.key, { messages: [keyed, sms] });
    expect(codesOf(reply)).toEqual(['taken', 'provider_not_configured']);
    expect(idsOf(reply)).toEqual([single.body.id]);
  });
});

describe('large contents', () => {
  const html = (bytes: number) => ({ ...email, bodyHtml: 'x'.repeat(bytes) });

  test('are stored separately, and those of refused messages are deleted', async () => {
    const fresh = await api.tenant({ messagesPerDay: 3 });
    const reply = await sendBatch(fresh.key, {
      messages: [html(100_000), html(1_000), html(40_000), html(50_000)],
    });
    expect(codesOf(reply)).toEqual(['taken', 'taken', 'taken', 'daily_limit_reached']);
    const rows = await api.admin`
      select octet_length(content::text) as bytes, content -> 'storedBytes' is not null as apart from messages
      where tenant_id = ${fresh.tenantId} order by seq`;
    expect(rows.map(({ apart }) => apart as boolean)).toEqual([true, false, true]);
    await expect.poll(() => countOf('message_contents', fresh.tenantId)).toBe(2);
  });

  test('are stored separately in part if only their sum is large', async () => {
    const fresh = await api.tenant();
    const reply = await sendBatch(fresh.key, { messages: times(60, html(30_000)) });
    expect(reply.status).toBe(202);
    const [row] = await api.admin`
      select count(*) filter (where content -> 'storedBytes' is not null)::integer as apart,
        sum(octet_length(content::text)) filter (where content -> 'storedBytes' is null)::integer as inline
      from messages where tenant_id = ${fresh.tenantId}`;
    expect(row?.['apart']).toBeGreaterThan(0);
    expect(row?.['inline']).toBeLessThan(1_100_000);
  });

  test('are limited to 15 MiB per request and 1 MiB per message, without attachments', async () => {
    const attached = {
      ...email,
      attachments: [{ filename: 'a.txt', contentType: 'text/plain', content: 'YQ==' }],
    };
    const reply = await sendBatch(tenant.key, {
      messages: [html(1_100_000), attached, html(900_000), html(900_000)],
    });
    expect(codesOf(reply)).toEqual(['payload_too_large', 'validation_failed', 'taken', 'taken']);
    // The request is not too large.
    const message = 'Message is too large: it may have 1 MiB';
    expect(itemsOf(reply)[0]?.error).toMatchObject({ statusCode: 413, message });
    expect(itemsOf(reply)[1]?.error).toMatchObject({
      details: [{ field: 'attachments', rule: 'unsupported' }],
    });
    const strict = await sendBatch(tenant.key, { mode: 'strict', messages: [email, html(1_100_000)] });
    expect(strict.status).toBe(400);
    expect(strict.body.details).toMatchObject([{ field: 'messages.1', message }]);
    const bomb = await sendBatch(tenant.key, { messages: times(17, html(950_000)) });
    expect(bomb).toMatchObject({ status: 413, body: { code: 'payload_too_large' } });
  });
});

test('NUL and deep nesting fail the whole batch; other invalid items fail alone', async () => {
  const fresh = await api.tenant();
  const nul = `{"messages":[${JSON.stringify(sms)},{"channel":"sms","to":"+15550000001","body":"a\\u0000"}]}`;
  expect((await sendBatch(fresh.key, nul)).status).toBe(400);
  const deep = `{"messages":[${JSON.stringify(sms)},${'['.repeat(40)}${']'.repeat(40)}]}`;
  expect((await sendBatch(fresh.key, deep)).status).toBe(400);
  expect(await messageCount(fresh.tenantId)).toBe(0);
  const messages = [
    { ...sms, metadata: { n: 'huge' } },
    { ...email, subject: 'a\r\nBcc: b@example.org' },
    { ...sms, idempotencyKey: 'ü' },
    { ...sms, external_id: 'a', externalId: 'b' },
    { ...sms, batchId: tenant.tenantId, tenantId: tenant.tenantId },
    sms,
  ];
  // A number that a JavaScript number cannot hold exactly.
  const text = JSON.stringify({ messages }).replace('"huge"', '12345678901234567890');
  const reply = await sendBatch(fresh.key, text);
  expect(codesOf(reply)).toEqual([...times(4, 'validation_failed'), 'taken', 'taken']);
  const [row] = await api.admin`
    select count(distinct batch_id)::integer as n from messages where tenant_id = ${fresh.tenantId}`;
  expect(row?.['n']).toBe(1);
});

test('a provider account of another tenant is refused', async () => {
  const [one, two] = [await api.tenant(), await api.tenant()];
  const [account] = await api.admin<{ id: string }[]>`
    select id from provider_accounts where tenant_id = ${two.tenantId} and channel = 'sms'`;
  const reply = await sendBatch(one.key, { messages: [{ ...sms, providerId: account?.id }, sms] });
  expect(codesOf(reply)).toEqual(['validation_failed', 'taken']);
});

test('each message of a batch has its own event', async () => {
  const fresh = await api.tenant();
  const reply = await sendBatch(fresh.key, { messages: [sms, INVALID, sms] });
  const [row] = await api.admin`
    select sum(cardinality(seqs))::integer as n from changes where ${fresh.tenantId}::uuid = any (tenant_ids)`;
  expect(row?.['n']).toBe(2);
  for (const id of idsOf(reply)) {
    const { body } = await get(api.first, `/v1/messages/${id}/events`, fresh.key);
    expect(body.items).toMatchObject([{ type: 'message.queued' }]);
  }
});

test('metrics count messages of a batch like single ones', async () => {
  const fresh = await api.instance();
  const sender = await api.tenant({ messagesPerDay: 2 });
  await sendBatch(sender.key, { messages: [sms, INVALID, email, sms] }, { via: fresh });
  const text = await fresh.metrics.registry.metrics();
  expect(text).toMatch(/accepted_total\{[^}]*channel="sms"[^}]*\} 1\b/);
  expect(text).toMatch(/accepted_total\{[^}]*channel="email"[^}]*\} 1\b/);
  expect(text).toMatch(/rejected_total\{[^}]*reason="quota"[^}]*\} 1\b/);
  expect(text).toMatch(/rejected_total\{[^}]*reason="validation"[^}]*\} 1\b/);
});

test('a batch needs a key with the scope messages:send', async () => {
  const reader = await api.key(tenant.tenantId, { scopes: ['messages:read'] });
  expect((await sendBatch(reader, { messages: [sms] })).status).toBe(403);
  const anonymous = await request(api.first, 'POST', '/v1/messages/batch', { body: { messages: [sms] } });
  expect(anonymous.status).toBe(401);
});
