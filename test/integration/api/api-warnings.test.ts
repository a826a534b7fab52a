import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { seedAccount } from '#test/support/seed.ts';

let api: TestApi;
let tenant: ApiTenant;
let adminApi: AdminApi;
let owned: TestTenant;
beforeAll(async () => {
  [api, adminApi] = await Promise.all([startTestApi(), startAdminApi()]);
  [tenant, owned] = await Promise.all([api.tenant(), adminApi.tenant()]);
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await adminApi[Symbol.asyncDispose]();
});

const post = (body: unknown, headers?: Record<string, string>) => send(api.first, tenant.key, body, headers);
const asOwner = (method: string, url: string, body?: unknown, key?: string) =>
  adminApi.callAs('owner', owned, method, url, body, key);

async function stored(id: string) {
  const [row] = await api.admin`
    select m.*, s.status, s.expires_at from messages m join message_states s using (seq, purge_on) where m.id = ${id}`;
  return row as Record<string, unknown>;
}

describe('the warnings of a 202', () => {
  test('are absent if every field is known', async () => {
    for (const message of Object.values(LEAST)) {
      const { status, body } = await post({
        ...message,
        ...(message.channel === 'email' ? { body: 'x' } : {}),
      });
      expect(status).toBe(202);
      expect(body).not.toHaveProperty('warnings');
    }
  });

  test.each([
    [{ ...LEAST.sms, scheduledAt: '2030-01-01T00:00:00Z' }, 'scheduledAt', 'sendAt'],
    [{ ...LEAST.sms, ttlSecond: 5 }, 'ttlSecond', 'ttlSeconds'],
    [{ ...LEAST.sms, ttl: 5 }, 'ttl', 'ttlSeconds'],
    [{ ...LEAST.email, html: '<p>x</p>' }, 'html', 'bodyHtml'],
    [{ ...LEAST.email, body: 'x', cc: 'b@example.org' }, 'cc', 'to'],
    [{ ...LEAST.email, body: 'x', 'reply-to': 'b@example.org' }, 'reply-to', 'replyTo'],
    [{ ...LEAST.sms, external_ID: 'x' }, 'external_ID', 'externalId'],
  ])('suggest the correct field name for %j', async (message, field, meant) => {
    const { status, body } = await post(message);
    expect(status).toBe(202);
    expect(body.warnings).toContainEqual({ field, message: expect.stringContaining(`'${meant}'`) });
  });

  test('name unknown fields and fields of another channel', async () => {
    const { status, body } = await post({
      ...LEAST.sms,
      subject: 'x',
      body_html: 'x',
      junk: 1,
      nothing: null,
    });
    expect(status).toBe(202);
    expect(body.warnings).toEqual([
      { field: 'subject', message: "Ignored: does not belong to channel 'sms'" },
      { field: 'bodyHtml', message: "Ignored: does not belong to channel 'sms'" },
      { field: 'junk', message: 'Unknown field, ignored' },
    ]);
  });

  test('are the same in a replay as in the first answer', async () => {
    const first = await post({ ...LEAST.sms, junk: 1 }, { 'idempotency-key': 'warned' });
    const again = await post({ ...LEAST.sms, other: 1 }, { 'idempotency-key': 'warned' });
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    expect(again.body.warnings).toEqual([{ field: 'junk', message: 'Unknown field, ignored' }]);
    const silent = await post(LEAST.sms, { 'idempotency-key': 'silent' });
    const loud = await post({ ...LEAST.sms, junk: 1 }, { 'idempotency-key': 'silent' });
    expect(loud.body).toEqual(silent.body);
  });

  test('are limited in number and size, and sanitized, for 5,000 unknown fields', async () => {
    const junk = Object.fromEntries(
      Array.from({ length: 5_000 }, (_, i) => [`${'\u202e<'.repeat(20)}${i}`, 1]),
    );
    const { status, body } = await post({ ...LEAST.sms, ...junk });
    expect(status).toBe(202);
    expect(body.warnings).toHaveLength(21);
    expect(body.warnings.at(-1)).toEqual({ field: 'request', message: '4980 further warnings' });
    expect(JSON.stringify(body.warnings)).not.toMatch(/[<\u202e]/);
    expect(JSON.stringify(body.warnings).length).toBeLessThan(5_000);
  });
});

describe('an accepted message', () => {
  const warningsTo = async (message: object, key = tenant.key) => {
    const { status, body } = await send(api.first, key, message);
    expect(status).toBe(202);
    return body.warnings as unknown;
  };

  test('has a warning if it is an email without text, or one whose body is ignored', async () => {
    const empty = [{ field: 'bodyText', message: expect.stringContaining('no text') }];
    expect(await warningsTo(LEAST.email)).toEqual(empty);
    expect(await warningsTo({ ...LEAST.email, bodyHtml: '', body: null })).toEqual(empty);
    expect(await warningsTo({ ...LEAST.email, bodyHtml: '<p>x</p>', body: 'x' })).toEqual([
      { field: 'body', message: expect.stringMatching(/^Ignored/) },
    ]);
    for (const text of [{ body: 'x' }, { bodyText: 'x' }, { bodyHtml: 'x' }]) {
      expect(await warningsTo({ ...LEAST.email, ...text })).toBeUndefined();
    }
  });

  test('has a warning if it is longer than the provider of its account accepts', async () => {
    const own = await api.tenant({}, { accounts: false });
    const twilio = await seedAccount(api.admin, own.tenantId, { provider: 'twilio', channel: 'sms' });
    const long = { ...LEAST.sms, body: 'x'.repeat(1_601) };
    const refusal = [
      { field: 'body', message: expect.stringMatching(/Twilio.* takes at most 1600 characters/) },
    ];
    expect(await warningsTo(long, own.key)).toEqual(refusal);
    expect(await warningsTo(long, await api.key(own.tenantId, { mode: 'test' }))).toEqual(refusal);
    expect(await warningsTo({ ...LEAST.sms, body: 'x'.repeat(1_600) }, own.key)).toBeUndefined();
    expect(await warningsTo({ ...LEAST.sms, body: 'x'.repeat(4_096) })).toBeUndefined();
    const simulator = await seedAccount(api.admin, own.tenantId, { channel: 'sms' });
    api.first.notice('account', { tenantId: own.tenantId, id: simulator });
    expect(await warningsTo({ ...long, providerId: simulator }, own.key)).toBeUndefined();
    expect(await warningsTo({ ...long, providerId: twilio }, own.key)).toEqual(refusal);
  });

  test('has a warning if it is sent with a test key and a live key would lack a provider', async () => {
    const own = await api.tenant({}, { accounts: false });
    const testKey = await api.key(own.tenantId, { mode: 'test' });
    expect(await warningsTo(LEAST.sms, testKey)).toEqual([
      { field: 'channel', message: expect.stringContaining("No provider is configured for channel 'sms'") },
    ]);
    expect((await send(api.first, own.key, LEAST.sms)).body.code).toBe('provider_not_configured');
    const rehearsed = await api.key(tenant.tenantId, { mode: 'test' });
    expect(await warningsTo(LEAST.sms, rehearsed)).toBeUndefined();
  });

  test('has the reason of a live key as its warning if the route has no provider left', async () => {
    const own = await api.tenant();
    const disabled = await seedAccount(api.admin, own.tenantId, { channel: 'sms' });
    await api.admin`update provider_accounts set status = 'disabled' where id = ${disabled}`;
    await api.admin`insert into routes (tenant_id, channel, version, strategy, steps, failover_on)
      values (${own.tenantId}, 'sms', 1, 'priority', ${api.admin.json([{ accountId: disabled, weight: 1 }])}, '{}')`;
    const refused = (await send(api.first, own.key, LEAST.sms)).body.message as string;
    expect(refused).toBe("The route of channel 'sms' has no provider that can be used");
    expect(await warningsTo(LEAST.sms, await api.key(own.tenantId, { mode: 'test' }))).toEqual([
      { field: 'channel', message: `${refused}: with a live key this would be refused` },
    ]);
  });

  test('of a test key must name an existing account of the tenant and channel, as of a live key', async () => {
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    const [other, email] = [
      await api.tenant(),
      await seedAccount(api.admin, tenant.tenantId, { channel: 'email' }),
    ];
    const others = await seedAccount(api.admin, other.tenantId, { channel: 'sms' });
    const own = await seedAccount(api.admin, tenant.tenantId, { channel: 'sms' });
    for (const key of [testKey, tenant.key]) {
      for (const providerId of [crypto.randomUUID(), others, email]) {
        expect(await send(api.first, key, { ...LEAST.sms, providerId })).toMatchObject({
          status: 400,
          body: { code: 'validation_failed', details: [{ field: 'providerId', rule: 'provider' }] },
        });
      }
      expect((await send(api.first, key, { ...LEAST.sms, providerId: own })).status).toBe(202);
    }
    const bare = await api.tenant({}, { accounts: false });
    const bareKey = await api.key(bare.tenantId, { mode: 'test' });
    expect((await send(api.first, bareKey, { ...LEAST.sms, providerId: own })).status).toBe(400);
  });
});

describe('null', () => {
  test('counts as an absent field in a message, at every level of known fields', async () => {
    const nulls = {
      externalId: null,
      send_at: null,
      expiresAt: null,
      category: null,
      tags: null,
      metadata: null,
      subject: null,
      idempotencyKey: null,
    };
    const sms = await post({ ...LEAST.sms, from: null, ...nulls });
    expect(sms.status).toBe(202);
    expect(sms.body).not.toHaveProperty('warnings');
    expect(await stored(sms.body.id)).toMatchObject({
      category: 'transactional',
      tags: null,
      metadata: null,
    });
    const email = await post({
      ...LEAST.email,
      bodyHtml: null,
      body_html: '<p>x</p>',
      headers: { 'X-A': null },
    });
    expect(email.status).toBe(202);
    expect(await stored(email.body.id)).toMatchObject({ content: { html: '<p>x</p>', headers: {} } });
    const media = { url: 'https://cdn.example/a.png', caption: null };
    expect(
      (await post({ channel: 'whatsapp', to: '+15550000001', body: null, template: null, media })).status,
    ).toBe(202);
  });

  test('in a required field counts as a missing field', async () => {
    const { status, body } = await post({ ...LEAST.sms, body: null });
    expect([status, body.code, body.message]).toEqual([400, 'missing_field', "Field 'body' is required"]);
  });

  test('is kept in free-form maps', async () => {
    const { body } = await post({ ...LEAST.push, data: { a: null }, metadata: { b: null } });
    expect(await stored(body.id)).toMatchObject({ content: { data: { a: null } }, metadata: { b: null } });
    const record = await get(api.first, `/v1/messages/${body.id}`, tenant.key);
    expect(record.body.metadata).toEqual({ b: null });
  });

  test('counts as an absent field in other POST and PUT requests', async () => {
    const key = await asOwner('POST', '/v1/admin/api-keys', {
      name: 'Key',
      mode: null,
      scopes: null,
      rateLimitRpm: null,
    });
    expect([key.status, key.body.mode]).toEqual([201, 'live']);
    const own = await adminApi.person();
    const made = await adminApi.call('POST', '/v1/admin/tenants', {
      as: own,
      body: { name: 'Nulls', slug: 'nulls', plan: null },
    });
    expect([made.status, made.body.plan]).toEqual([201, 'free']);
    const member = await asOwner('PUT', '/v1/admin/members', {
      email: null,
      subject: 'nobody',
      role: 'viewer',
    });
    expect(member.status).toBe(200);
    const provider = await asOwner('POST', '/v1/admin/providers', {
      provider: 'simulator-sms',
      label: 'Nulls',
      publicConfig: null,
      secretConfig: {},
      rateLimitPerSecond: null,
    });
    expect([provider.status, provider.body.configPublic]).toEqual([201, {}]);
  });

  test('clears an optional field in PATCH, and is refused for a required field', async () => {
    const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Patched', rateLimitRpm: 5 });
    const patched = await asOwner('PATCH', `/v1/admin/api-keys/${key.id}`, {
      rate_limit_rpm: null,
      expiresAt: null,
    });
    expect([patched.status, patched.body.rateLimitRpm]).toEqual([200, null]);
    for (const field of ['name', 'scopes']) {
      const refused = await asOwner('PATCH', `/v1/admin/api-keys/${key.id}`, { [field]: null });
      expect(refused).toMatchObject({ status: 400, body: { details: [{ field, rule: 'required' }] } });
    }
    const { body: account } = await asOwner('POST', '/v1/admin/providers', {
      provider: 'simulator-sms',
      label: 'Patched',
      publicConfig: { any: 1 },
      secretConfig: {},
      rateLimitPerSecond: 5,
    });
    const url = `/v1/admin/providers/${account.id}`;
    const cleared = await asOwner('PATCH', url, { publicConfig: null, rateLimitPerSecond: null });
    expect(cleared).toMatchObject({ status: 200, body: { configPublic: {}, rateLimitPerSecond: null } });
    for (const field of ['label', 'secretConfig']) {
      const refused = await asOwner('PATCH', url, { [field]: null });
      expect(refused).toMatchObject({ status: 400, body: { details: [{ field, rule: 'required' }] } });
    }
  });
});

describe('other requests', () => {
  test('warn of unknown fields, and a replay has the same warnings', async () => {
    const first = await asOwner('POST', '/v1/admin/api-keys', { name: 'Key', rpm: 5 }, 'key-warned');
    const warnings = [{ field: 'rpm', message: "Unknown field, ignored: did you mean 'rateLimitRpm'?" }];
    expect(first).toMatchObject({ status: 201, body: { warnings } });
    const again = await asOwner('POST', '/v1/admin/api-keys', { name: 'Key' }, 'key-warned');
    expect(again.body).toEqual(first.body);
    const { id } = first.body;
    const read = await asOwner('GET', `/v1/admin/api-keys/${id}`);
    expect(read.body).not.toHaveProperty('warnings');
    for (const [method, url, body] of [
      ['PATCH', `/v1/admin/api-keys/${id}`, { junk: 1 }],
      ['POST', `/v1/admin/api-keys/${id}/rotate`, { junk: 1 }],
      ['PUT', '/v1/admin/members', { subject: 'warned', role: 'viewer', junk: 1 }],
      ['PATCH', `/v1/admin/tenants/${owned.id}`, { name: 'Name', junk: 1 }],
      [
        'POST',
        '/v1/admin/providers',
        { provider: 'simulator-sms', label: 'Warned', secretConfig: {}, junk: 1 },
      ],
      ['GET', '/v1/admin/providers?junk=1', undefined],
      ['GET', '/v1/admin/audit-log?junk=1', undefined],
      ['GET', '/v1/admin/limits?junk=1', undefined],
      ['GET', '/v1/admin/me?junk=1', undefined],
    ] as const) {
      const reply = await asOwner(method, url, body);
      expect({ url, ...reply }).toMatchObject({ url, body: { warnings: [{ field: 'junk' }] } });
    }
  });

  test('warn of fields that the resource has and the request cannot change', async () => {
    const message = 'Ignored: this request cannot change it';
    const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Fixed' });
    const { body: account } = await asOwner('POST', '/v1/admin/providers', {
      provider: 'simulator-sms',
      label: 'Fixed',
      secretConfig: {},
    });
    for (const [method, url, sent, fixed] of [
      ['PATCH', `/v1/admin/api-keys/${key.id}`, { mode: 'test', created_at: '' }, ['mode', 'createdAt']],
      ['PATCH', `/v1/admin/providers/${account.id}`, { provider: 'twilio' }, ['provider']],
      ['PATCH', `/v1/admin/tenants/${owned.id}`, { slug: 'other' }, ['slug']],
      ['PUT', '/v1/admin/members', { subject: 'fixed', role: 'viewer', userId: key.id }, ['userId']],
    ] as const) {
      const warnings = fixed.map((field) => ({ field, message }));
      expect(await asOwner(method, url, sent)).toMatchObject({ status: 200, body: { warnings } });
    }
    const { body: scheduled } = await post({ ...LEAST.sms, sendAt: new Date(Date.now() + 3_600_000) });
    const { body } = await request(api.first, 'PATCH', `/v1/messages/${scheduled.id}`, {
      headers: { 'x-service-key': tenant.key.text },
      body: { sendAt: new Date(Date.now() + 7_200_000), body: 'Bye', to: '+15550000002', scheduledAt: 'x' },
    });
    expect(body.warnings).toEqual([
      { field: 'scheduledAt', message: "Unknown field, ignored: did you mean 'sendAt'?" },
      { field: 'body', message },
      { field: 'to', message },
    ]);
  });

  test('warn of an unknown query parameter and suggest the correct one', async () => {
    const { status, body } = await get(api.first, '/v1/messages?stauts=failed&per_page=5', tenant.key);
    expect(status).toBe(200);
    expect(body.warnings).toEqual([
      { field: 'stauts', message: "Unknown query parameter, ignored: did you mean 'status'?" },
      { field: 'per_page', message: "Unknown query parameter, ignored: did you mean 'limit'?" },
    ]);
  });

  test.each(['metadata.__proto__=x', 'metadata[__proto__]=x', '%5F_proto__=x'])(
    'refuse the query parameter %s, which would be dropped',
    async (query) => {
      const { status, body } = await get(api.first, `/v1/messages?${query}`, tenant.key);
      expect({ status, ...body }).toMatchObject({ status: 400, code: 'validation_failed' });
    },
  );

  test('name query parameters of a route that takes none', async () => {
    const reply = await request(api.first, 'POST', '/v1/messages?dryRun=true&to=x', {
      body: JSON.stringify(LEAST.sms),
      headers: { 'x-service-key': tenant.key.text, 'content-type': 'application/json' },
    });
    const message = 'Unknown query parameter, ignored';
    const warnings = ['dryRun', 'to'].map((field) => ({ field, message }));
    expect(reply).toMatchObject({ status: 202, body: { warnings } });
  });

  test('warn that an idempotency key is ignored if the route takes none', async () => {
    const warnings = [
      { field: 'Idempotency-Key', message: 'Ignored: this request takes no idempotency key' },
    ];
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    const advance = (headers: Record<string, string>) =>
      request(api.first, 'POST', '/v1/messages/test-clock', {
        headers: { 'x-service-key': testKey.text, ...headers },
        body: { advance: 'PT1H' },
      });
    expect(await advance({ 'idempotency-key': 'hour' })).toMatchObject({ status: 200, body: { warnings } });
    expect((await advance({})).body).not.toHaveProperty('warnings');
    const { body: message } = await post({ ...LEAST.sms, sendAt: new Date(Date.now() + 3_600_000) });
    const cancel = { headers: { 'x-service-key': tenant.key.text, 'idempotency-key': 'cancel' } };
    expect(await request(api.first, 'POST', `/v1/messages/${message.id}/cancel`, cancel)).toMatchObject({
      status: 200,
      body: { warnings },
    });
    const { body: page } = await request(api.first, 'GET', '/v1/messages?limit=1', cancel);
    expect(page).not.toHaveProperty('warnings');
  });

  test('warn that a body is ignored if the route takes none', async () => {
    const { body: account } = await asOwner('POST', '/v1/admin/providers', {
      provider: 'simulator-sms',
      label: 'No body',
      secretConfig: {},
    });
    const url = `/v1/admin/providers/${account.id}/disable`;
    const warnings = [{ field: 'body', message: 'Ignored: this request takes no body' }];
    expect(await asOwner('POST', url, { reason: 'x' })).toMatchObject({ status: 200, body: { warnings } });
    expect((await asOwner('POST', url, {})).body).not.toHaveProperty('warnings');
  });
});

test.each([[[]], [[{ ...LEAST.sms }]], ['text'], [5], [true]])(
  'a body that is not a JSON object is refused with that message: %j',
  async (sent) => {
    const reply = await request(api.first, 'POST', '/v1/messages', {
      body: JSON.stringify(sent),
      headers: { 'x-service-key': tenant.key.text },
    });
    expect(reply).toMatchObject({
      status: 400,
      body: {
        code: 'validation_failed',
        message: 'Request body must be a JSON object',
        details: [{ field: 'body', rule: 'type' }],
      },
    });
  },
);
