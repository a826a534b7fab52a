import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import { LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import type { TestKey } from '#test/support/service-keys.ts';
import { seedAccount } from '#test/support/seed.ts';

let api: TestApi;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const post = (body: unknown, headers?: Record<string, string>) => send(api.first, tenant.key, body, headers);

async function stored(id: string) {
  const [row] = await api.admin`
    select m.*, s.status, s.expires_at from messages m join message_states s using (seq, purge_on) where m.id = ${id}`;
  return row as Record<string, unknown>;
}

/** A refusal that names the field and the rule it broke. */
function refusal(field: string, rule: string, code = 'validation_failed') {
  return {
    status: 400,
    body: {
      statusCode: 400,
      code,
      details: expect.arrayContaining([expect.objectContaining({ field, rule })]),
    },
  };
}

describe('the 202 response', () => {
  test.each(Object.values(LEAST))(
    'a $channel message with only the required fields is queued',
    async (message) => {
      const reply = await post(message);
      expect(reply.status).toBe(202);
      expect(reply.body).toMatchObject({ status: 'queued', channel: message.channel, to: message.to });
      expect(reply.body.id).toMatch(UUID_V4);
      expect(new Date(reply.body.enqueuedAt).toISOString()).toBe(reply.body.enqueuedAt);
    },
  );

  test('the message is stored and a worker is woken', async () => {
    const { body } = await post({ ...LEAST.sms, priority: 'high' });
    expect(await stored(body.id)).toMatchObject({ status: 'queued', recipient: '+15550000001', priority: 0 });
    await expect
      .poll(() => api.first.wakes.find((wake) => wake.id === body.id))
      .toMatchObject({ kind: 'high', payload: expect.stringContaining(tenant.tenantId) });
  });

  test('the id encodes the sequence number and the purge day of the message', async () => {
    const { body } = await post(LEAST.sms);
    const messageIds = createMessageIds(await loadMessageIdKey(api.admin));
    const [place] = await api.admin`
      select seq::float8, purge_on::text as "purgeOn" from messages where id = ${body.id}`;
    expect(messageIds.decode(body.id)).toEqual(place);
  });

  test('the message is assigned to the oldest account of its channel, the account it names, or none in test mode', async () => {
    const fresh = await api.tenant();
    const [oldest] = await api.admin<{ id: string }[]>`
      select id from provider_accounts where tenant_id = ${fresh.tenantId} and channel = 'sms'`;
    const younger = await seedAccount(api.admin, fresh.tenantId, { channel: 'sms' });
    const testKey = await api.key(fresh.tenantId, { mode: 'test' });
    const accountOf = async (key: TestKey, message: object) => {
      const { body } = await send(api.first, key, message);
      const [row] = await api.admin`
        select account_id, pinned from live_messages join messages using (seq) where id = ${body.id}`;
      return row;
    };
    const named = { ...LEAST.sms, providerId: younger };
    expect(await accountOf(fresh.key, named)).toEqual({ account_id: younger, pinned: true });
    expect(await accountOf(fresh.key, LEAST.sms)).toEqual({ account_id: oldest?.id, pinned: false });
    expect(await accountOf(testKey, named)).toEqual({ account_id: NO_ACCOUNT, pinned: false });
  });

  test('without NATS the message is accepted and its sweep is due at once', async () => {
    const offline = await api.instance({ natsIsConnected: false });
    const { status, body } = await send(offline, tenant.key, LEAST.sms);
    expect(status).toBe(202);
    const [due] = await api.admin`
      select due_at <= now() as is_due from live_messages join messages using (seq) where id = ${body.id}`;
    expect(due?.['is_due']).toBe(true);
  });

  test('segments and encoding of an SMS are returned', async () => {
    expect((await post({ ...LEAST.sms, body: 'a'.repeat(160) })).body).toMatchObject({
      segments: 1,
      encoding: 'GSM-7',
    });
    expect((await post({ ...LEAST.sms, body: 'a'.repeat(161) })).body).toMatchObject({
      segments: 2,
      encoding: 'GSM-7',
    });
    expect((await post({ ...LEAST.sms, body: 'ю'.repeat(71) })).body).toMatchObject({
      segments: 2,
      encoding: 'UCS-2',
    });
  });

  test('`to` is returned as sent, and its normalized form is stored too', async () => {
    const { body } = await post({ ...LEAST.email, to: 'Ann@Example.ORG' });
    expect(body.to).toBe('Ann@Example.ORG');
    expect(await stored(body.id)).toMatchObject({ recipient: 'Ann@Example.ORG', address: 'Ann@example.org' });
    const number = await post({ ...LEAST.sms, to: '+4402079460000' });
    expect(number.body.to).toBe('+4402079460000');
    expect(await stored(number.body.id)).toMatchObject({ address: '+442079460000' });
  });

  test('RateLimit headers show the limit of the key and the requests left', async () => {
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 7 });
    const { headers } = await send(api.first, key, LEAST.sms);
    expect(headers).toMatchObject({ 'ratelimit-limit': '7', 'ratelimit-remaining': '6' });
    expect(Number(headers['ratelimit-reset'])).toBeGreaterThan(0);
  });
});

describe('required fields', () => {
  test.each([
    ['channel', { to: '+15550000001', body: 'x' }],
    ['to', { channel: 'sms', body: 'x' }],
    ['body', { channel: 'sms', to: '+15550000001' }],
    ['from', { channel: 'email', to: 'a@b.example', subject: 'x' }],
    ['subject', { channel: 'email', to: 'a@b.example', from: 'a@b.example' }],
    ['to', { channel: 'push', title: 'x' }],
    ['to', { channel: 'whatsapp', body: 'x' }],
    ['channel', undefined],
  ])('a missing %s is 400, and the answer names the field', async (field, message) => {
    const reply = await post(message);
    expect(reply).toMatchObject(refusal(field, 'required', 'missing_field'));
    expect(reply.body.message).toBe(`Field '${field}' is required`);
  });

  test('push needs one of title, body and data', async () => {
    expect(await post({ channel: 'push', to: 't' })).toMatchObject(
      refusal('body', 'required', 'missing_field'),
    );
    expect((await post({ channel: 'push', to: 't', data: { a: 1 } })).status).toBe(202);
    expect((await post({ channel: 'push', to: 't', body: 'x' })).status).toBe(202);
  });

  test('whatsapp needs one of body, template and media, and refuses more than one', async () => {
    const least = { channel: 'whatsapp', to: '+15550000001' };
    const template = { name: 'n', language: 'en_US', variables: { orderNo: '1', order_no: '2' } };
    expect(await post(least)).toMatchObject(refusal('body', 'required', 'missing_field'));
    expect(await post({ ...least, body: 'x', template })).toMatchObject(refusal('body', 'conflict'));
    const { body } = await post({ ...least, template });
    expect((await stored(body.id))['content']).toEqual({ kind: 'template', ...template });
    expect((await post({ ...least, media: { url: 'https://cdn.example/a.png', caption: 'A' } })).status).toBe(
      202,
    );
    expect((await post({ ...least, media: { url: 'javascript:1' } })).status).toBe(400);
    expect(await post({ ...least, media: { url: 'http://127.0.0.1/a.png' } })).toMatchObject({
      status: 400,
      body: { code: 'url_blocked', details: [{ field: 'media.url', rule: 'url_blocked' }] },
    });
  });
});

describe('field validation', () => {
  test.each([
    ['15550000001', 'no plus'],
    ['+0155500000', 'a leading zero'],
    ['+1 555 000 0001', 'spaces'],
    ['+12', 'too short to be possible'],
    ['+1555000000199999', 'too long'],
    ['+99912345678', 'no such country'],
  ])('the number %s is refused: %s', async (to) => {
    for (const channel of ['sms', 'whatsapp'] as const) {
      expect(await post({ ...LEAST[channel], to })).toMatchObject(refusal('to', 'e164'));
    }
  });

  test('fictional phone numbers are accepted', async () => {
    for (const to of ['+15550000001', '+15550100199', '+447700900123']) {
      expect((await post({ ...LEAST.sms, to })).status).toBe(202);
    }
  });

  test.each([
    'plain',
    'a@',
    '@b.example',
    'a b@c.example',
    'Ann <ann@example.org>',
    'a@b.example, c@d.example',
    'a..b@c.example',
  ])('the recipient %s is refused: it is not a bare e-mail address', async (to) => {
    expect(await post({ ...LEAST.email, to })).toMatchObject(refusal('to', 'email'));
  });

  test.each([
    'hello@example.com',
    'Acme <hello@example.com>',
    '"Acme, Inc." <hello@example.com>',
    'Müller <m@example.de>',
  ])('the sender %s is accepted', async (from) => {
    expect((await post({ ...LEAST.email, from, replyTo: from })).status).toBe(202);
  });

  test('a sender that is not a single mailbox is refused', async () => {
    for (const from of ['nobody', 'a@b.example, c@d.example', 'Acme <>']) {
      expect(await post({ ...LEAST.email, from })).toMatchObject(refusal('from', 'mailbox'));
    }
  });

  test.each([
    ['to', 200, (to: string) => ({ channel: 'push', to, title: 'x' })],
    ['body', 4096, (body: string) => ({ ...LEAST.sms, body })],
  ] as const)('%s may have 1 to %i code points', async (field, max, message) => {
    // Each emoji is two UTF-16 units; the limit must count characters instead.
    expect((await post(message('😀'.repeat(max)))).status).toBe(202);
    expect(await post(message('😀'.repeat(max + 1)))).toMatchObject(refusal(field, 'max'));
    expect(await post(message(''))).toMatchObject(refusal(field, 'min'));
  });

  test.each([
    ['subject', { ...LEAST.email, subject: 'a\r\nBcc: x@y.example' }],
    ['from', { ...LEAST.email, from: 'a@b.example\n' }],
    ['replyTo', { ...LEAST.email, replyTo: 'a@b.example\r' }],
    ['to', { ...LEAST.push, to: 'token\n' }],
    ['headers.X-Own', { ...LEAST.email, headers: { 'X-Own': 'a\nb' } }],
  ])('a line break in %s is refused', async (field, message) => {
    expect(await post(message)).toMatchObject(refusal(field, 'line'));
  });

  test('NUL and lone surrogates are refused at any depth', async () => {
    const texts = ['"a\\u0000b"', '"\\ud800"', '"\\udc00x"'];
    for (const text of texts) {
      expect(await post(`{"channel":"sms","to":"+15550000001","body":${text}}`)).toMatchObject(
        refusal('body', 'characters'),
      );
      const nested = `{"channel":"push","to":"t","data":{"deep":[{"k":${text}}]}}`;
      expect(await post(nested)).toMatchObject(refusal('data.deep.0.k', 'characters'));
    }
    expect((await post('{"channel":"push","to":"t","data":{"a\\u0000":1}}')).status).toBe(400);
    expect((await post('{"channel":"sms","to":"+15550000001","body":"\\ud83d\\ude00"}')).status).toBe(202);
  });

  test('mail headers outside the allowed ones are refused', async () => {
    expect(
      (await post({ ...LEAST.email, headers: { 'List-Unsubscribe': '<https://x.example>', 'X-Own': '1' } }))
        .status,
    ).toBe(202);
    for (const name of ['Bcc', 'From', 'X-SMTPAPI', 'X:Bad']) {
      expect(await post({ ...LEAST.email, headers: { [name]: 'x' } })).toMatchObject(
        refusal(`headers.${name}`, 'header'),
      );
    }
  });

  test('metadata is limited to 20 pairs, and tags to ten', async () => {
    const pairs = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 'v']));
    expect((await post({ ...LEAST.sms, metadata: pairs(20), tags: Array(10).fill('t') })).status).toBe(202);
    expect(await post({ ...LEAST.sms, metadata: pairs(21) })).toMatchObject(refusal('metadata', 'max'));
    expect(await post({ ...LEAST.sms, tags: Array(11).fill('t') })).toMatchObject(refusal('tags', 'max'));
  });

  test('an expiry must be in the future and before the end of retention', async () => {
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    expect((await post({ ...LEAST.sms, expiresAt: inDays(29) })).status).toBe(202);
    expect(await post({ ...LEAST.sms, expiresAt: inDays(-1) })).toMatchObject(refusal('expiresAt', 'min'));
    expect(await post({ ...LEAST.sms, expiresAt: inDays(31) })).toMatchObject(refusal('expiresAt', 'max'));
    expect(await post({ ...LEAST.sms, ttlSeconds: 0 })).toMatchObject(refusal('ttlSeconds', 'min'));
    expect(await post({ ...LEAST.sms, ttlSeconds: 60, expiresAt: inDays(1) })).toMatchObject(
      refusal('ttlSeconds', 'conflict'),
    );
  });

  test('without an expiry a message expires after 24 hours, and a one-time password after ten minutes', async () => {
    for (const [category, seconds] of [
      ['transactional', 86_400],
      ['otp', 600],
    ] as const) {
      const { body } = await post({ ...LEAST.sms, category });
      const { expires_at } = await stored(body.id);
      // The lifetime starts at the commit, a moment after the request.
      const lifetimeMs = (expires_at as Date).getTime() - Date.parse(body.enqueuedAt);
      expect(lifetimeMs).toBeGreaterThanOrEqual(seconds * 1_000);
      expect(lifetimeMs).toBeLessThan(seconds * 1_000 + 5_000);
    }
  });

  test('wrong types are refused', async () => {
    expect(await post({ ...LEAST.sms, body: 5 })).toMatchObject(refusal('body', 'type'));
    expect(await post({ ...LEAST.sms, channel: 'fax' })).toMatchObject(refusal('channel', 'enum'));
    expect(await post('[]')).toMatchObject(refusal('body', 'type'));
    expect(await post('null')).toMatchObject({ status: 400 });
    expect(await post('"text"')).toMatchObject(refusal('body', 'type'));
  });
});

describe('content', () => {
  test('an email without text gets an empty one; `body` is used only if there is neither text nor HTML', async () => {
    const contentOf = async (extra: object) =>
      (await stored((await post({ ...LEAST.email, ...extra })).body.id))['content'] as Record<
        string,
        unknown
      >;
    expect(await contentOf({})).toMatchObject({
      text: '',
      from: { name: 'Acme', address: 'hello@example.com' },
    });
    expect(await contentOf({ body: 'b' })).toMatchObject({ text: 'b' });
    expect(await contentOf({ body: 'b', bodyHtml: '<p>' })).toEqual(
      expect.not.objectContaining({ text: 'b' }),
    );
    expect(await contentOf({ bodyText: 't', bodyHtml: '<p>' })).toMatchObject({ text: 't', html: '<p>' });
  });

  test('fields of another channel and unknown fields are ignored', async () => {
    const { status, body } = await post({
      ...LEAST.sms,
      subject: 5,
      bodyHtml: {},
      nonsense: true,
      template: 'x',
    });
    expect(status).toBe(202);
    expect((await stored(body.id))['content']).toEqual({ body: 'Hello' });
  });
});

describe('spelling', () => {
  test('camelCase and snake_case are the same field', async () => {
    const message = {
      channel: 'email',
      to: 'a@b.example',
      from: 'a@b.example',
      subject: 's',
      body_html: '<p>',
      body_text: 't',
      reply_to: 'r@b.example',
      external_id: 'e-1',
      attachments: [{ filename: 'f', content_type: 'text/plain', content: 'YQ==' }],
    };
    const { status, body } = await post(message);
    expect(status).toBe(202);
    expect(await stored(body.id)).toMatchObject({
      external_id: 'e-1',
      content: {
        html: '<p>',
        text: 't',
        replyTo: { address: 'r@b.example' },
        attachments: [{ contentType: 'text/plain' }],
      },
    });
  });

  test('both spellings with the same value pass, with different values they are refused', async () => {
    expect((await post({ ...LEAST.sms, externalId: 'a', external_id: 'a' })).status).toBe(202);
    expect(await post({ ...LEAST.sms, externalId: 'a', external_id: 'b' })).toMatchObject(
      refusal('externalId', 'conflict'),
    );
  });

  test('free-form maps keep their keys as sent', async () => {
    const maps = {
      metadata: { orderNo: 'a', order_no: 'b' },
      data: { someKey: 1, some_key: { innerKey: 2 } },
    };
    const { body } = await post({ ...LEAST.push, ...maps });
    expect(await stored(body.id)).toMatchObject({ metadata: maps.metadata, content: { data: maps.data } });
  });
});

describe('providers', () => {
  test('without a provider for the channel the answer is 400', async () => {
    const bare = await api.tenant({}, { accounts: false });
    const reply = await send(api.first, bare.key, LEAST.sms);
    expect(reply).toMatchObject({
      status: 400,
      body: { code: 'provider_not_configured', message: "No provider is configured for channel 'sms'" },
    });
  });

  test('a provider of another channel, a disabled and a deleted one do not count', async () => {
    const bare = await api.tenant({}, { accounts: false });
    await seedAccount(api.admin, bare.tenantId, { channel: 'email' });
    const [disabled, deleted] = [
      await seedAccount(api.admin, bare.tenantId),
      await seedAccount(api.admin, bare.tenantId),
    ];
    await api.admin`update provider_accounts set status = 'disabled' where id = ${disabled}`;
    await api.admin`update provider_accounts set status = 'deleted' where id = ${deleted}`;
    expect((await send(api.first, bare.key, LEAST.sms)).body.code).toBe('provider_not_configured');
    expect((await send(api.first, bare.key, LEAST.email)).status).toBe(202);
  });

  test('a new provider account is usable immediately in every process', async () => {
    const bare = await api.tenant({}, { accounts: false });
    const other = await api.instance();
    expect((await send(other, bare.key, LEAST.sms)).status).toBe(400);
    await seedAccount(api.admin, bare.tenantId);
    expect((await send(other, bare.key, LEAST.sms)).status).toBe(202);
  });

  test('a pinned provider must belong to the tenant and serve the channel', async () => {
    const other = await api.tenant();
    const [own] =
      await api.admin`select id from provider_accounts where tenant_id = ${tenant.tenantId} and channel = 'sms'`;
    const [mail] =
      await api.admin`select id from provider_accounts where tenant_id = ${tenant.tenantId} and channel = 'email'`;
    const [foreign] =
      await api.admin`select id from provider_accounts where tenant_id = ${other.tenantId} and channel = 'sms'`;
    const { status, body } = await post({ ...LEAST.sms, providerId: own?.['id'] });
    expect(status).toBe(202);
    expect(await stored(body.id)).toMatchObject({ pinned_account_id: own?.['id'] });
    for (const providerId of [mail?.['id'], foreign?.['id'], crypto.randomUUID()]) {
      expect(await post({ ...LEAST.sms, providerId })).toMatchObject(refusal('providerId', 'provider'));
    }
  });

  test('a test key needs no provider, and the answer has test: true', async () => {
    const bare = await api.tenant({}, { accounts: false });
    const key = await api.key(bare.tenantId, { mode: 'test' });
    const { status, body } = await send(api.first, key, LEAST.sms);
    expect(status).toBe(202);
    expect(body.test).toBe(true);
    expect(await stored(body.id)).toMatchObject({ test: true });
  });
});

test('a test call and a live call with the same idempotency key create separate messages', async () => {
  const fresh = await api.tenant();
  const rehearsal = await send(api.first, await api.key(fresh.tenantId, { mode: 'test' }), LEAST.sms, {
    'idempotency-key': 'rehearsed',
  });
  const live = await send(api.first, fresh.key, LEAST.sms, { 'idempotency-key': 'rehearsed' });
  expect([rehearsal.status, live.status]).toEqual([202, 202]);
  expect(live.body.id).not.toBe(rehearsal.body.id);
  expect(live.body).not.toHaveProperty('test');
});

test('after a rejected purge day answers 503, the next message is accepted with a new block of sequence numbers', async () => {
  const numberOf = async (id: string) =>
    Number((await api.admin`select seq from messages where id = ${id}`)[0]?.['seq']);
  const before = await numberOf((await post(LEAST.sms)).body.id);
  const [purgeDay] = await api.admin<{ text: string }[]>`
    select pg_get_functiondef('purge_day(timestamptz, integer)'::regprocedure) as text`;
  await api.admin`create or replace function purge_day(accepted timestamptz, retention_days integer) returns date
    language sql immutable parallel safe as $$ select '2999-01-07'::date $$`;
  try {
    expect(await post(LEAST.sms)).toMatchObject({ status: 503, body: { code: 'dependency_unavailable' } });
  } finally {
    await api.admin.unsafe(purgeDay?.text ?? '');
  }
  const { status, body } = await post(LEAST.sms);
  expect(status).toBe(202);
  // The new number is from another reserved block.
  expect(Math.floor((await numberOf(body.id)) / 1_024)).toBeGreaterThan(Math.floor(before / 1_024));
});

test('a refused message stores no row and no idempotency key', async () => {
  const fresh = await api.tenant();
  await send(api.first, fresh.key, { ...LEAST.sms, to: 'x' }, { 'idempotency-key': 'k' });
  const [left] = await api.admin`
    select (select count(*) from messages where tenant_id = ${fresh.tenantId})
      + (select count(*) from idempotency_keys where tenant_id = ${fresh.tenantId}) as n`;
  expect(left?.['n']).toBe(0);
});

test('no log line contains a recipient, content or key', async () => {
  await post({ ...LEAST.sms, to: '+15550009876', body: 'very private words' });
  await post({ ...LEAST.sms, to: 'not-a-number-9876', body: 'very private words' });
  await request(api.first, 'GET', '/v1/messages?to=%2B15550009876', {
    headers: { 'x-service-key': tenant.key.text },
  });
  const lines = api.logLines.join('\n');
  expect(lines).toContain('"event":"request"');
  for (const secret of ['15550009876', 'not-a-number-9876', 'very private', tenant.key.text])
    expect(lines).not.toContain(secret);
});
