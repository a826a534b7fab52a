import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accountSecretBinding } from '#core/domain/storage/binding.ts';
import type { ProviderAccountId } from '#core/domain/storage/ids.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';

const CANARY = 'canary0secret0value';
const PATH = '/v1/admin/providers';
const twilio = () => ({
  provider: 'twilio',
  label: 'Main sms',
  publicConfig: {
    zulu: 1,
    account_sid: `AC${'0'.repeat(32)}`,
    from: '+15550000001',
    alpha: { b: 1, a: [2] },
  },
  secretConfig: { authToken: CANARY },
});
const mapOf = (keys: number) => Object.fromEntries(Array.from({ length: keys }, (_, i) => [`k${i}`, i]));
const simulator = (label = 'Simulated', channel = 'sms') => ({
  provider: `simulator-${channel}`,
  label,
  secretConfig: {},
});

let api: AdminApi;
let tenant: TestTenant;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant({ providersPerChannelMax: 1_000 });
});
afterAll(() => api[Symbol.asyncDispose]());

const asAdmin = (method: string, url: string, body?: unknown, key?: string): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body, key);
const created = async (body: unknown = simulator()): Promise<string> =>
  (await asAdmin('POST', PATH, body)).body.id;
const row = async (id: string) => {
  const [found] = await api.admin`select * from provider_accounts where id = ${id}`;
  return found ?? {};
};
const auditOf = async (target: string): Promise<string[]> => {
  const rows = await api.admin<
    { action: string }[]
  >`select action from audit_log where target = ${target} order by seq`;
  return rows.map(({ action }) => action);
};

describe('creating a provider account', () => {
  test('answers 201 with the account, its settings exactly as sent and no secret', async () => {
    const sent = twilio();
    const { status, body, text } = await asAdmin('POST', PATH, sent);
    expect(status).toBe(201);
    expect(body).toMatchObject({
      provider: 'twilio',
      channel: 'sms',
      label: 'Main sms',
      status: 'unverified',
      health: 'healthy',
      rateLimitPerSecond: null,
    });
    expect(JSON.stringify(body.configPublic)).toBe(JSON.stringify(sent.publicConfig));
    expect(text).not.toContain(CANARY);
    expect(text).not.toContain('secretConfig');
    const read = await asAdmin('GET', `${PATH}/${body.id}`);
    const { warnings, ...account } = body;
    expect(warnings).toHaveLength(2);
    const { recent, ...shown } = read.body;
    expect(recent).toBeDefined();
    expect(JSON.stringify(shown)).toBe(JSON.stringify(account));
  });

  test('stores the secret encrypted and bound to its account', async () => {
    const id = (await created(twilio())) as ProviderAccountId;
    const { ciphertext } = (await row(id)) as { ciphertext: string };
    expect(ciphertext).not.toContain(CANARY);
    const plain = await api.keyring.decrypt(accountSecretBinding(tenant.id, id), ciphertext);
    expect(JSON.parse(Buffer.from(plain).toString())).toEqual({ authToken: CANARY });
    const other = accountSecretBinding(tenant.id, randomUUID());
    await expect(api.keyring.decrypt(other, ciphertext)).rejects.toMatchObject({ code: 'corrupt' });
  });

  test('accepts snake_case field names', async () => {
    const { status, body } = await asAdmin('POST', PATH, {
      provider: 'twilio',
      label: 'Snake',
      public_config: twilio().publicConfig,
      secret_config: { auth_token: CANARY },
      rate_limit_per_second: 7,
    });
    expect([status, body.rateLimitPerSecond]).toEqual([201, 7]);
  });

  test('accepts configPublic as an alias of publicConfig, and refuses both with different values', async () => {
    const { publicConfig: configPublic, ...rest } = twilio();
    for (const settings of [{ configPublic }, { config_public: configPublic }]) {
      const { status, body } = await asAdmin('POST', PATH, { ...rest, ...settings });
      expect([status, JSON.stringify(body.configPublic)]).toEqual([201, JSON.stringify(configPublic)]);
    }
    const both = await asAdmin('POST', PATH, { ...twilio(), configPublic });
    expect(both.status).toBe(201);
    const publicConfig = { ...configPublic, from: 'Other' };
    const moved = await asAdmin('PATCH', `${PATH}/${both.body.id}`, { configPublic: publicConfig });
    expect([moved.status, moved.body.configPublic]).toEqual([200, publicConfig]);
    const refused = await asAdmin('POST', PATH, { ...rest, publicConfig, configPublic });
    expect([refused.status, refused.body.details]).toMatchObject([
      400,
      [{ field: 'publicConfig', rule: 'conflict' }],
    ]);
  });

  test('warns of unknown settings, suggests the closest name, and never repeats secret fields', async () => {
    const { zulu: _, alpha: __, ...config } = twilio().publicConfig;
    const sent = { ...twilio(), publicConfig: { ...config, mesagingServiceSid: 'x' } };
    const { status, body } = await asAdmin('POST', PATH, sent);
    const warning = {
      field: 'publicConfig.mesagingServiceSid',
      message: "Unknown setting, ignored: did you mean 'messagingServiceSid'?",
    };
    expect([status, body.warnings]).toEqual([201, [warning]]);
    const secretConfig = { authToken: CANARY, [CANARY]: 1 };
    const changed = await asAdmin('PATCH', `${PATH}/${body.id}`, {
      publicConfig: sent.publicConfig,
      secretConfig,
    });
    const unknown = { field: 'secretConfig', message: 'Has an unknown field, ignored' };
    expect(changed.body.warnings).toEqual([warning, unknown]);
    const replaced = await asAdmin('PUT', `${PATH}/${body.id}/secret`, { secretConfig });
    expect(replaced.body.warnings).toEqual([unknown]);
    expect(changed.text + replaced.text).not.toContain(CANARY);
    expect((await asAdmin('GET', `${PATH}/${body.id}`)).body).not.toHaveProperty('warnings');
  });

  test.each([
    ['no label', { label: undefined }, 'missing_field', 'label'],
    ['a label of one character', { label: 'x' }, 'validation_failed', 'label'],
    ['a label of 81 characters', { label: '😀'.repeat(81) }, 'validation_failed', 'label'],
    ['an unknown provider', { provider: 'carrier-pigeon' }, 'validation_failed', 'provider'],
    ['no provider', { provider: undefined }, 'missing_field', 'provider'],
    ['no secretConfig', { secretConfig: undefined }, 'missing_field', 'secretConfig'],
    ['an empty secretConfig', { secretConfig: {} }, 'missing_field', 'secretConfig.authToken'],
    [
      'a secret that is not a string',
      { secretConfig: { authToken: [CANARY] } },
      'validation_failed',
      'secretConfig.authToken',
    ],
    [
      'a secret with an invalid format',
      { secretConfig: { authToken: `${CANARY} x` } },
      'validation_failed',
      'secretConfig.authToken',
    ],
    ['a secretConfig that is not an object', { secretConfig: CANARY }, 'validation_failed', 'secretConfig'],
    [
      'a setting that breaks its rule',
      { publicConfig: { accountSid: 'x', from: '+15550000001' } },
      'validation_failed',
      'publicConfig.accountSid',
    ],
    [
      'settings of over 32 KiB',
      { publicConfig: { ...twilio().publicConfig, note: 'x'.repeat(32_768) } },
      'validation_failed',
      'publicConfig',
    ],
    [
      'a secret in publicConfig',
      { publicConfig: { ...twilio().publicConfig, auth_token: CANARY } },
      'validation_failed',
      'publicConfig.authToken',
    ],
    ['a rate of zero', { rateLimitPerSecond: 0 }, 'validation_failed', 'rateLimitPerSecond'],
  ])('refuses %s with 400 and never repeats a value', async (_, change, code, field) => {
    const { status, body, text } = await asAdmin('POST', PATH, { ...twilio(), ...change });
    expect([status, body.code]).toEqual([400, code]);
    expect(body.details.map((detail: { field: string }) => detail.field)).toContain(field);
    expect(text).not.toContain(CANARY);
  });

  test.each([
    ['publicConfig', (keys: number) => ({ publicConfig: mapOf(keys) })],
    [
      'publicConfig',
      (keys: number) => ({ publicConfig: { a: Object.values(mapOf(keys - 2)), b: mapOf(0) } }),
    ],
    ['publicConfig', (keys: number) => ({ publicConfig: { a: mapOf(keys - 3), b: { c: 1 } } })],
    ['secretConfig', (keys: number) => ({ secretConfig: mapOf(keys) })],
  ])('accepts 100 values in %s and refuses 101, counted over all levels', async (field, change) => {
    const taken = await asAdmin('POST', PATH, { ...simulator(), ...change(100) });
    const refused = await asAdmin('POST', PATH, { ...simulator(), ...change(101) });
    expect([taken.status, refused.status]).toEqual([201, 400]);
    expect(refused.body.details).toEqual([{ field, rule: 'max', message: expect.any(String) }]);
  });

  test.each([
    ['webhook-sms', { url: 'https://169.254.169.254/x' }, 'publicConfig.url'],
    ['webhook-sms', { url: 'https://[::ffff:10.0.0.1]:8443/x' }, 'publicConfig.url'],
    ['webhook-push', { url: 'https://gateway.localhost./x' }, 'publicConfig.url'],
    ['webhook-email', { url: 'https://0x7f.1/' }, 'publicConfig.url'],
    ['webhook-whatsapp', { url: 'https://[fd00:ec2::254]/' }, 'publicConfig.url'],
    ['smtp', { host: '10.0.0.1' }, 'publicConfig.host'],
    ['smtp', { host: '[::1]' }, 'publicConfig.host'],
    ['smtp', { host: 'LOCALHOST' }, 'publicConfig.host'],
  ])(
    'and changing one refuses %s with %j, which may not be called',
    async (provider, publicConfig, field) => {
      const isMail = provider === 'smtp';
      const body = {
        provider,
        label: 'Inside',
        publicConfig: isMail ? { host: 'mail.example.org' } : { url: 'https://gateway.example.org/' },
        secretConfig: isMail ? {} : { signingSecret: `whsec_${'A'.repeat(32)}` },
      };
      const id = await created(body);
      const refused = {
        status: 400,
        body: { code: 'url_blocked', details: [{ field, rule: 'url_blocked' }] },
      };
      expect(await asAdmin('POST', PATH, { ...body, publicConfig })).toMatchObject(refused);
      const { secretConfig } = body;
      expect(await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig, secretConfig })).toMatchObject(refused);
      expect(await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig })).toMatchObject(refused);
    },
  );

  test('accepts labels of 2 and of 80 code points', async () => {
    expect((await asAdmin('POST', PATH, simulator('ab'))).status).toBe(201);
    expect((await asAdmin('POST', PATH, simulator('😀'.repeat(80)))).status).toBe(201);
  });

  test('with an idempotency key creates once and replays the answer', async () => {
    const body = twilio();
    const first = await asAdmin('POST', PATH, body, 'providers-once');
    const again = await asAdmin('POST', PATH, body, 'providers-once');
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(again.text).toBe(first.text);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(await auditOf(first.body.id)).toEqual(['provider.created']);
    const other = await asAdmin(
      'POST',
      PATH,
      { ...body, secretConfig: { authToken: `${CANARY}2` } },
      'providers-once',
    );
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_mismatch']);
  });

  test('with an idempotency key creates once under concurrency', async () => {
    const label = randomUUID();
    const replies = await Promise.all(
      Array.from({ length: 6 }, () => asAdmin('POST', PATH, simulator(label), `providers-${label}`)),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 201));
    expect(new Set(replies.map(({ body }) => body.id)).size).toBe(1);
    const rows = await api.admin`select id from provider_accounts where label = ${label}`;
    expect(rows.length).toBe(1);
  });

  test('replays while the keyring is unavailable, and answers 503 to requests that need it', async () => {
    const own = await api.tenant();
    const send = (key: string) => api.callAs('admin', own, 'POST', PATH, twilio(), key);
    const first = await send('before');
    const keyFile = join(api.keyringDir, `${own.id}.key`);
    await rm(keyFile);
    await mkdir(keyFile);
    expect(await send('before')).toMatchObject({ status: 201, body: first.body });
    const refused = await send('after');
    expect([refused.status, refused.body.code]).toEqual([503, 'dependency_unavailable']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    const secret = await api.callAs('admin', own, 'PUT', `${PATH}/${first.body.id}/secret`, {
      secretConfig: { authToken: 'x' },
    });
    expect(secret.status).toBe(503);
    const rows = await api.admin`select id from provider_accounts where tenant_id = ${own.id}`;
    expect(rows.length).toBe(1);
  });

  test('stops exactly at the limit per channel under concurrency', async () => {
    const own = await api.tenant({ providersPerChannelMax: 3 });
    const create = (channel: string) => api.callAs('admin', own, 'POST', PATH, simulator('Limited', channel));
    const replies = await Promise.all(Array.from({ length: 6 }, () => create('sms')));
    expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([
      201, 201, 201, 403, 403, 403,
    ]);
    const refused = replies.find(({ status }) => status === 403);
    expect(refused?.body.code).toBe('plan_limit_reached');
    expect((await create('email')).status).toBe(201);
    const made = replies.find(({ status }) => status === 201);
    expect((await api.callAs('admin', own, 'DELETE', `${PATH}/${made?.body.id}`)).status).toBe(204);
    expect((await create('sms')).status).toBe(201);
  });
});

describe('reading provider accounts', () => {
  test('pages newest first, filters by channel and status, and binds cursors to tenant and filter', async () => {
    const own = await api.tenant();
    const ids: string[] = [];
    for (const channel of ['sms', 'email', 'sms', 'sms']) {
      ids.unshift((await api.callAs('admin', own, 'POST', PATH, simulator('Paged', channel))).body.id);
    }
    const get = (query: string) => api.callAs('viewer', own, 'GET', `${PATH}?${query}`);
    const first = await get('limit=3');
    const second = await get(`limit=2&cursor=${first.body.nextCursor}`);
    expect([...first.body.items, ...second.body.items].map(({ id }: { id: string }) => id)).toEqual(ids);
    expect(second.body.nextCursor).toBeNull();
    expect((await get('channel=email')).body.items.map(({ id }: { id: string }) => id)).toEqual([ids[2]]);
    await api.callAs('admin', own, 'POST', `${PATH}/${ids[0]}/disable`);
    expect((await get('status=disabled')).body.items.map(({ id }: { id: string }) => id)).toEqual([ids[0]]);
    expect((await get(`channel=sms&cursor=${first.body.nextCursor}`)).body.code).toBe('invalid_cursor');
    expect((await get('limit=201')).status).toBe(400);
    expect((await get('channel=fax')).status).toBe(400);
    expect((await get('provider=simulator-sms')).body.items).toHaveLength(3);
    expect((await get('provider=simulator')).body).toMatchObject({
      code: 'validation_failed',
      details: [{ field: 'provider', rule: 'enum' }],
    });
    const foreign = await api.callAs('viewer', tenant, 'GET', `${PATH}?cursor=${first.body.nextCursor}`);
    expect(foreign.body.code).toBe('invalid_cursor');
  });

  test('shows the catalog with JSON Schemas of all settings', async () => {
    const { status, body } = await api.callAs('viewer', tenant, 'GET', '/v1/admin/provider-catalog');
    expect(status).toBe(200);
    const entry = body.find(({ provider }: { provider: string }) => provider === 'twilio');
    expect(entry).toMatchObject({ channel: 'sms', capabilities: { dedupe: 'none' } });
    expect(entry.publicConfigSchema.required).toContain('accountSid');
    expect(entry.secretRoute).toEqual(['accountSid', 'apiKeySid', 'region', 'edge']);
    expect(entry.secretConfigSchema.properties).toHaveProperty('authToken');
  });
});

describe('a stored secret', () => {
  const smtp = () => ({
    provider: 'smtp',
    label: 'Mail',
    publicConfig: { host: 'Mail.Example.com', port: 465, username: 'mailer', from: 'a@example.com' },
    secretConfig: { password: CANARY },
  });

  test.each([
    [{ host: 'evil.example.net' }, ['host']],
    [{ port: 587 }, ['port', 'secure']],
    [{ port: 587, secure: true }, ['port']],
    [{ secure: false }, ['secure']],
    [{ secure: false, requireTls: false }, ['secure', 'requireTls']],
    [{ username: 'root' }, ['username']],
    [{ username: undefined }, ['username']],
    [{ oauthIssuer: 'google' }, ['oauthIssuer']],
    [{ host: 'evil.example.net', port: 2525, username: 'root' }, ['host', 'port', 'secure', 'username']],
  ])('does not go where %j leads without being given again', async (change, fields) => {
    const id = await created(smtp());
    const before = await row(id);
    const publicConfig = { ...smtp().publicConfig, ...change };
    const { status, body, text } = await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig, label: 'Other' });
    expect([status, body.code]).toEqual([400, 'missing_field']);
    expect(body.details.map((detail: { field: string }) => detail.field)).toEqual([
      'secretConfig',
      ...fields.map((field) => `publicConfig.${field}`),
    ]);
    expect(text).not.toContain('evil');
    expect(await row(id)).toEqual(before);
  });

  test.each([
    [{ host: 'mail.example.com' }],
    [{ host: 'mail.example.com.' }],
    [{ secure: true, requireTls: true }],
    [{ oauthTenant: 'common' }],
    [{ from: 'b@example.com', fromName: 'B', replyTo: 'c@example.com', note: 'x' }],
  ])('need not be sent again with the change %j', async (change) => {
    const id = await created(smtp());
    const publicConfig = { ...smtp().publicConfig, ...change };
    const { status, body } = await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig });
    expect([status, body.secretVersion]).toEqual([200, 1]);
    expect(body.configPublic).toEqual(publicConfig);
  });

  test.each([
    [
      'infobip',
      { baseUrl: 'x.api.infobip.com', from: 'ACMEIN' },
      { apiKey: CANARY },
      { dltTemplateId: '1107' },
      ['dltEntityId'],
    ],
    [
      'vonage',
      { apiKey: 'abcd1234', from: 'ACMEIN' },
      { apiSecret: CANARY },
      { dltTemplateId: '1107' },
      ['dltEntityId'],
    ],
    [
      'plivo',
      { authId: 'MAXXXXXXXXXXXXXXXXXX', from: 'ACMEIN' },
      { authToken: CANARY },
      { dltTemplateId: '1107' },
      ['dltEntityId'],
    ],
    [
      'aws-sms',
      { region: 'ap-south-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE', mode: 'sns' },
      { secretAccessKey: CANARY },
      { dltTemplateId: '1107', configurationSetName: 'events', originationIdentity: 'pool-1' },
      ['configurationSetName', 'originationIdentity', 'dltEntityId'],
    ],
  ])(
    'of %s is kept by a change of settings only if all the settings fit together, as at creation',
    async (provider, settings, secretConfig, change, fields) => {
      const account = { provider, label: 'Text', publicConfig: settings, secretConfig };
      const id = await created(account);
      const before = await row(id);
      const publicConfig = { ...settings, ...change };
      const patched = await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig });
      expect(patched.status).toBe(400);
      expect(patched.body.details.map((detail: { field: string }) => detail.field)).toEqual(
        fields.map((field) => `publicConfig.${field}`),
      );
      expect(await row(id)).toEqual(before);
      const posted = await asAdmin('POST', PATH, { ...account, publicConfig });
      expect([posted.status, posted.body.code, posted.body.details]).toEqual([
        400,
        patched.body.code,
        patched.body.details,
      ]);
    },
  );

  test('sent again with a new host is re-encrypted and queued for verification', async () => {
    const id = await created(smtp());
    await api.admin`update provider_accounts set status = 'active', verify_requested_at = null where id = ${id}`;
    const before = await row(id);
    const { status, body } = await asAdmin('PATCH', `${PATH}/${id}`, {
      publicConfig: { ...smtp().publicConfig, host: 'mail.example.org' },
      secretConfig: { password: `${CANARY}2` },
    });
    expect([status, body.status, body.secretVersion]).toEqual([200, 'unverified', 2]);
    const after = await row(id);
    expect(after['ciphertext']).not.toBe(before['ciphertext']);
    expect(after['verify_requested_at']).toBeInstanceOf(Date);
  });

  test.each([
    ['settings', (id: string) => asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: smtp().publicConfig })],
    [
      'a secret',
      (id: string) => asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { password: 'second' } }),
    ],
  ])('and its place move together: %s meant for what was there before are refused', async (_, late) => {
    const id = await created(smtp());
    const waiting = async (n: number): Promise<void> => {
      await expect.poll(() => lockWaits(api.admin)).toHaveLength(n);
    };
    const changes = await api.admin.begin(async (tx) => {
      // Changes of a tenant wait for its row lock; both requests have checked the account before they wait.
      await tx`select from tenants where id = ${tenant.id} for update`;
      const moved = asAdmin('PATCH', `${PATH}/${id}`, {
        publicConfig: { ...smtp().publicConfig, host: 'mail.example.net' },
        secretConfig: { password: 'first' },
      });
      await waiting(1);
      const settled = late(id);
      await waiting(2);
      return [moved, settled] as const;
    });
    const [moved, settled] = await Promise.all(changes);
    expect([moved.status, settled.status, settled.body.code]).toEqual([200, 409, 'invalid_state']);
    const { ciphertext, config_public: config } = await row(id);
    const binding = accountSecretBinding(tenant.id, id);
    const plain = Buffer.from(await api.keyring.decrypt(binding, String(ciphertext))).toString();
    expect([JSON.parse(plain), config]).toMatchObject([{ password: 'first' }, { host: 'mail.example.net' }]);
  });

  test('of a disabled account is verified only when the account is enabled', async () => {
    const id = await created(smtp());
    await asAdmin('POST', `${PATH}/${id}/disable`);
    const moved = { ...smtp().publicConfig, host: 'mail.example.net' };
    expect((await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: moved })).status).toBe(400);
    const secretConfig = { password: 'x' };
    const changed = await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: moved, secretConfig });
    expect([changed.status, changed.body.status]).toEqual([200, 'disabled']);
    expect((await row(id))['verify_requested_at']).toBeNull();
    await asAdmin('POST', `${PATH}/${id}/enable`);
    expect((await row(id))['verify_requested_at']).toBeInstanceOf(Date);
  });
});

describe('changing a provider account', () => {
  test('changes only the fields sent', async () => {
    const id = await created(twilio());
    const before = await row(id);
    const renamed = await asAdmin('PATCH', `${PATH}/${id}`, { label: 'Renamed', rateLimitPerSecond: 5 });
    expect([renamed.status, renamed.body.label, renamed.body.rateLimitPerSecond]).toEqual([
      200,
      'Renamed',
      5,
    ]);
    expect(await row(id)).toMatchObject({ version: before['version'], status: 'unverified' });
    const config = { from: '+15550000002', accountSid: `AC${'0'.repeat(32)}` };
    const { body } = await asAdmin('PATCH', `${PATH}/${id}`, {
      publicConfig: config,
      rateLimitPerSecond: null,
    });
    expect(body).toMatchObject({ label: 'Renamed', rateLimitPerSecond: null, secretVersion: 1 });
    expect(JSON.stringify(body.configPublic)).toBe(JSON.stringify(config));
    const after = await row(id);
    expect(after['version']).toBeGreaterThan(Number(before['version']));
    expect(after['ciphertext']).toBe(before['ciphertext']);
    expect(await auditOf(id)).toEqual(['provider.created', 'provider.updated', 'provider.updated']);
  });

  test('with an empty body answers 200 and changes nothing', async () => {
    const id = await created();
    const before = await row(id);
    expect((await asAdmin('PATCH', `${PATH}/${id}`, {})).status).toBe(200);
    expect(await row(id)).toEqual(before);
  });

  test('can replace settings and secret together', async () => {
    const id = await created(twilio());
    const { status, body, text } = await asAdmin('PATCH', `${PATH}/${id}`, {
      publicConfig: { ...twilio().publicConfig, apiKeySid: `SK${'0'.repeat(32)}` },
      secretConfig: { authToken: CANARY, apiKeySecret: CANARY },
    });
    expect([status, body.secretVersion]).toEqual([200, 2]);
    expect(text).not.toContain(CANARY);
    const alone = await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } });
    expect([alone.status, alone.body.details[0].field]).toEqual([400, 'secretConfig.apiKeySecret']);
  });

  test.each([
    [{ label: 'x' }],
    [{ label: null }],
    [{ publicConfig: { accountSid: 'x' } }],
    [{ rateLimitPerSecond: 10_001 }],
  ])('refuses %j with 400', async (change) => {
    expect((await asAdmin('PATCH', `${PATH}/${await created(twilio())}`, change)).status).toBe(400);
  });

  test('a new secret replaces the old one, which is kept encrypted for 15 minutes', async () => {
    const id = await created(twilio());
    const before = await row(id);
    const { status, body, text } = await asAdmin('PUT', `${PATH}/${id}/secret`, {
      secretConfig: { authToken: `${CANARY}9` },
    });
    expect([status, Object.keys(body).toSorted(), body.id, body.secretVersion]).toEqual([
      200,
      ['id', 'rotatedAt', 'secretVersion'],
      id,
      2,
    ]);
    expect(text).not.toContain(CANARY);
    const after = await row(id);
    expect(after['previous_ciphertext']).toBe(before['ciphertext']);
    const kept = (after['previous_until'] as Date).getTime() - Date.parse(body.rotatedAt);
    expect(kept).toBe(15 * 60_000);
    expect(after['version']).toBeGreaterThan(Number(before['version']));
    const plain = await api.keyring.decrypt(accountSecretBinding(tenant.id, id), String(after['ciphertext']));
    expect(Buffer.from(plain).toString()).toContain(`${CANARY}9`);
    expect(await auditOf(id)).toEqual(['provider.created', 'provider.secret_rotated']);
  });

  test('a replaced secret is deleted when its retention ends', async () => {
    const id = await created(twilio());
    await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } });
    await api.admin`select forget_replaced_secrets()`;
    expect((await row(id))['previous_ciphertext']).not.toBeNull();
    await api.admin`update provider_accounts set previous_until = now() where id = ${id}`;
    await api.admin`select forget_replaced_secrets()`;
    expect((await row(id))['previous_ciphertext']).toBeNull();
  });

  test.each([
    ['stays', 'while a receipt that arrived before it expired is unread', '2 days', '-1 minute', true],
    ['is deleted', 'beside an unread receipt that arrived later', '2 days', '1 minute', false],
    ['is deleted', 'three days after it expired in any case', '3 days', '-1 minute', false],
  ])('a replaced secret %s %s', async (_, _when, ago, arrival, stays) => {
    const id = await created(twilio());
    await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } });
    await api.admin`update provider_accounts set previous_until = now() - ${ago}::interval where id = ${id}`;
    await api.admin`insert into receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body,
        received_at, due_at)
      select tenant_id, id, 'POST', 1, '', '{}', '', previous_until + ${arrival}::interval, now() from provider_accounts
      where id = ${id}`;
    await api.admin`select forget_replaced_secrets()`;
    expect((await row(id))['previous_ciphertext'] !== null).toBe(stays);
  });

  test.each([
    ['a new secret', 'active', { secretConfig: { authToken: CANARY } }],
    ['new settings', 'active', { publicConfig: { ...twilio().publicConfig, from: '+15550000009' } }],
    ['a new secret', 'invalid', { secretConfig: { authToken: CANARY } }],
    ['the same settings', 'invalid', { publicConfig: twilio().publicConfig }],
  ])(
    '%s for an account that was %s makes it unverified and requests verification',
    async (_, status, change) => {
      const id = await created(twilio());
      await api.admin`
      update provider_accounts set status = ${status}, status_reason = 'forbidden', auth_failures = 2, verified_at = now(),
        verify_requested_at = null, verification_at = now(), verification_result = 'valid' where id = ${id}`;
      const { body } = await asAdmin('PATCH', `${PATH}/${id}`, change);
      expect(body).toMatchObject({
        status: 'unverified',
        statusReason: null,
        lastVerification: null,
        verifiedAt: null,
      });
      expect(await row(id)).toMatchObject({
        auth_failures: 0,
        verify_requested_at: expect.any(Date) as Date,
      });
    },
  );

  test('only settings that name another server or vendor account count as a move', async () => {
    const id = await created(twilio());
    const { publicConfig } = twilio();
    const secretConfig = { authToken: CANARY };
    await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: { ...publicConfig, from: '+15550000002' } });
    await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig, secretConfig });
    await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig });
    expect((await row(id))['moved_at']).toBeNull();
    const other = { ...publicConfig, account_sid: `AC${'1'.repeat(32)}` };
    expect((await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: other, secretConfig })).status).toBe(200);
    expect((await row(id))['moved_at']).toBeInstanceOf(Date);
  });

  test('settings that differ only in spelling keep the status and request no verification', async () => {
    const id = await created(twilio());
    await api.admin`update provider_accounts set status = 'active', verify_requested_at = null where id = ${id}`;
    const { account_sid: accountSid, from } = twilio().publicConfig;
    const { body } = await asAdmin('PATCH', `${PATH}/${id}`, { publicConfig: { from, accountSid } });
    expect([body.status, body.configPublic]).toEqual(['active', { from, accountSid }]);
    expect((await row(id))['verify_requested_at']).toBeNull();
  });

  test('a finished verification is shown with its time, result and reason', async () => {
    const id = await created(twilio());
    expect((await row(id))['verify_requested_at']).toBeInstanceOf(Date);
    await api.admin`select note_verification(${id}, 1, 'unknown', 'connect_refused')`;
    const { body } = await asAdmin('GET', `${PATH}/${id}`);
    expect(body).toMatchObject({
      status: 'unverified',
      statusReason: 'connect_refused',
      lastVerification: { result: 'unknown', reason: 'connect_refused' },
      verifiedAt: null,
    });
    expect(Date.now() - Date.parse(body.lastVerification.at)).toBeLessThan(60_000);
  });

  test('POST verify answers 202 and requests verification, but is 409 for a disabled account', async () => {
    const id = await created();
    const { status, body } = await asAdmin('POST', `${PATH}/${id}/verify`);
    expect([status, body.id]).toEqual([202, id]);
    expect((await row(id))['verify_requested_at']).toBeInstanceOf(Date);
    expect(api.notices).toContainEqual({ kind: 'account', notice: { tenantId: tenant.id, id } });
    await asAdmin('POST', `${PATH}/${id}/disable`);
    const refused = await asAdmin('POST', `${PATH}/${id}/verify`);
    expect([refused.status, refused.body.code]).toEqual([409, 'invalid_state']);
  });

  test('disabling and enabling change the status and are idempotent', async () => {
    const id = await created();
    const steps = ['enable', 'disable', 'disable', 'enable', 'enable'];
    const statuses: string[] = [];
    for (const step of steps) {
      const { status, body } = await asAdmin('POST', `${PATH}/${id}/${step}`);
      statuses.push(`${status} ${body.status}`);
    }
    expect(statuses).toEqual(['200 unverified', '200 disabled', '200 disabled', '200 active', '200 active']);
    expect(await auditOf(id)).toEqual(['provider.created', 'provider.disabled', 'provider.enabled']);
  });

  test('a deleted account is 404, and its secret is deleted', async () => {
    const id = await created(twilio());
    await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } });
    const deleted = await asAdmin('DELETE', `${PATH}/${id}`);
    expect([deleted.status, deleted.text]).toEqual([204, '']);
    expect(await row(id)).toMatchObject({ status: 'deleted', ciphertext: null, previous_ciphertext: null });
    for (const [method, url, body] of [
      ['GET', `${PATH}/${id}`, undefined],
      ['DELETE', `${PATH}/${id}`, undefined],
      ['PATCH', `${PATH}/${id}`, { label: 'Back' }],
      ['PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } }],
      ['POST', `${PATH}/${id}/enable`, undefined],
    ] as const) {
      expect((await asAdmin(method, url, body)).status).toBe(404);
    }
    const { body } = await asAdmin('GET', `${PATH}?limit=200`);
    expect(body.items.map((item: { id: string }) => item.id)).not.toContain(id);
  });

  test('a new secret makes messages deferred for the account due immediately', async () => {
    const id = await created(twilio());
    const seq = 2 ** 40;
    await api.admin`insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, reason, priority, channel,
        test, pinned, next_attempt_at, expires_at, updated_at)
      values (${seq}, '2099-01-05', ${tenant.id}, ${id}, now() + interval '1 hour', 'deferred', 'provider_not_ready', 1, 'sms',
        false, false, now() + interval '1 hour', now() + interval '1 day', now())`;
    await asAdmin('PUT', `${PATH}/${id}/secret`, { secretConfig: { authToken: CANARY } });
    const [due] = await api.admin<
      { now: boolean }[]
    >`select due_at <= now() as now from live_messages where seq = ${seq}`;
    expect(due?.now).toBe(true);
  });
});

test('no secret is logged, including secrets in refused requests', async () => {
  await asAdmin('POST', PATH, { ...twilio(), label: '' });
  expect(api.logLines.length).toBeGreaterThan(0);
  expect(api.logLines.join('\n')).not.toContain(CANARY);
});

test('no database row holds a secret in plaintext', async () => {
  const tables = await api.admin<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'despatch'::regnamespace and relkind = 'r'`;
  const found: string[] = [];
  for (const { name } of tables) {
    const rows = await api.admin`select 1 from ${api.admin(name)} t where t::text like ${`%${CANARY}%`}`;
    if (rows.length > 0) found.push(name);
  }
  expect(found).toEqual([]);
});
