import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKeySecret, parseServiceKey } from '#core/domain/tenant/service-key.ts';
import { deriveSubkeys } from '#core/domain/storage/subkeys.ts';
import { PEPPER, type Reply } from '#test/support/api.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

const PATH = '/v1/admin/api-keys';
const HOUR = 3_600_000;

let api: AdminApi;
let tenant: TestTenant;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant({ apiKeysMax: 1_000 });
});
afterAll(() => api[Symbol.asyncDispose]());

const asAdmin = (method: string, url: string, body?: unknown, key?: string): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body, key);
const create = async (body: object = {}): Promise<Reply['body']> =>
  (await asAdmin('POST', PATH, { name: 'Key', ...body })).body;
const hashesOf = async (id: string) => {
  const [row] = await api.admin<{ secret_hash: Buffer; previous_secret_hash: Buffer | null }[]>`
    select secret_hash, previous_secret_hash from api_keys where id = ${id}`;
  return row;
};
const hashOf = (key: string): Buffer =>
  hashKeySecret(deriveSubkeys(PEPPER)['key-hash'], parseServiceKey(key)?.secret ?? '');

describe('creating a key', () => {
  test('answers 201 with the key, shown this once, and stores only its hash', async () => {
    const { status, body } = await asAdmin('POST', PATH, { name: 'First' });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'First',
      mode: 'live',
      scopes: ['messages:send', 'messages:read'],
      rateLimitRpm: null,
      expiresAt: null,
      lastUsedAt: null,
      status: 'active',
    });
    expect(body.key).toMatch(/^dsp_live_[0-9A-Za-z]+_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
    expect(body.key.startsWith(`${body.prefix}_`)).toBe(true);
    expect((await hashesOf(body.id))?.secret_hash).toEqual(hashOf(body.key));
    const shown = [await asAdmin('GET', `${PATH}/${body.id}`), await asAdmin('GET', PATH)];
    for (const { text } of shown) expect(text).not.toContain(parseServiceKey(body.key)?.secret);
    const { key: _, ...rest } = body;
    expect(shown[0]?.body).toEqual(rest);
  });

  test('accepts every setting', async () => {
    const expiresAt = new Date(Date.now() + HOUR).toISOString();
    const body = await create({
      mode: 'test',
      scopes: ['messages:read'],
      rateLimitRpm: 60_000,
      expires_at: expiresAt,
    });
    expect(body).toMatchObject({ mode: 'test', scopes: ['messages:read'], rateLimitRpm: 60_000, expiresAt });
    expect(body.key).toMatch(/^dsp_test_/);
  });

  test.each([
    [{ name: 'x' }, 'name'],
    [{ name: '😀'.repeat(81) }, 'name'],
    [{ mode: 'staging' }, 'mode'],
    [{ scopes: [] }, 'scopes'],
    [{ scopes: ['messages:delete'] }, 'scopes.0'],
    [{ rateLimitRpm: 0 }, 'rateLimitRpm'],
    [{ rateLimitRpm: 60_001 }, 'rateLimitRpm'],
    [{ rateLimitRpm: 1.5 }, 'rateLimitRpm'],
    [{ expiresAt: '2001-01-01T00:00:00Z' }, 'expiresAt'],
    [{ expiresAt: '2099-01-01' }, 'expiresAt'],
    [{ expiresAt: '9999-12-31T23:59:59-23:59' }, 'expiresAt'],
  ])('refuses %j with 400', async (change, field) => {
    const { status, body } = await asAdmin('POST', PATH, { name: 'Key', ...change });
    expect([status, body.code, body.details[0].field]).toEqual([400, 'validation_failed', field]);
  });

  test('refuses a time that has passed by the same rule as the other routes', async () => {
    const expiresAt = '2001-01-01T00:00:00Z';
    const key = await asAdmin('POST', PATH, { name: 'Key', expiresAt });
    const suppression = await asAdmin('POST', '/v1/admin/suppressions', {
      channel: 'sms',
      address: '+14155550100',
      expiresAt,
    });
    expect(key.body.details).toEqual([
      { field: 'expiresAt', rule: 'min', message: 'Must lie in the future' },
    ]);
    expect(key.body.details).toEqual(suppression.body.details);
  });

  test('refuses a body without a name as a missing field', async () => {
    const { status, body } = await asAdmin('POST', PATH, {});
    expect([status, body.code, body.message]).toEqual([400, 'missing_field', "Field 'name' is required"]);
  });

  test('an idempotent replay returns the same key, although the key is not stored', async () => {
    const sent = { name: 'Replayed', expiresAt: new Date(Date.now() + HOUR).toISOString() };
    const first = await asAdmin('POST', PATH, sent, 'keys-once');
    const again = await asAdmin('POST', PATH, { ...sent, idempotency_key: 'keys-once' });
    expect(again.body).toEqual(first.body);
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    const [stored] = await api.admin<{ found: boolean }[]>`
      select bool_or(t::text like ${`%${parseServiceKey(first.body.key)?.secret ?? '-'}%`}) as found from idempotency_keys t`;
    expect(stored?.found).toBe(false);
    const other = await asAdmin('POST', PATH, { ...sent, name: 'Other' }, 'keys-once');
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_mismatch']);
  });

  test('concurrent requests with one idempotency key create and return one key', async () => {
    const name = randomUUID();
    const replies = await Promise.all(
      Array.from({ length: 6 }, () => asAdmin('POST', PATH, { name }, `keys-${name}`)),
    );
    expect(new Set(replies.map(({ body }) => body.key)).size).toBe(1);
    expect((await api.admin`select id from api_keys where name = ${name}`).length).toBe(1);
  });

  test('stops exactly at the plan limit; revoked and expired keys do not count', async () => {
    // The seeded tenant already has one key.
    const own = await api.tenant({ apiKeysMax: 4 });
    const make = (body: object = {}) => api.callAs('admin', own, 'POST', PATH, { name: 'Limited', ...body });
    const replies = await Promise.all(Array.from({ length: 6 }, () => make()));
    expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([
      201, 201, 201, 403, 403, 403,
    ]);
    expect(replies.find(({ status }) => status === 403)?.body.code).toBe('plan_limit_reached');
    const [one, two] = replies.filter(({ status }) => status === 201).map(({ body }) => body.id);
    await api.callAs('admin', own, 'DELETE', `${PATH}/${one}`);
    expect((await make()).status).toBe(201);
    await api.admin`update api_keys set expires_at = now() where id = ${two}`;
    expect([(await make()).status, (await make()).status]).toEqual([201, 403]);
  });
});

describe('reading keys', () => {
  test('pages newest first and filters by status and mode', async () => {
    const own = await api.tenant();
    const ids: string[] = [];
    for (const mode of ['live', 'test', 'live']) {
      ids.unshift((await api.callAs('admin', own, 'POST', PATH, { name: 'Paged', mode })).body.id);
    }
    await api.callAs('admin', own, 'DELETE', `${PATH}/${ids[0]}`);
    const get = async (query: string): Promise<string[]> =>
      (await api.callAs('admin', own, 'GET', `${PATH}?${query}`)).body.items.map(
        ({ id }: { id: string }) => id,
      );
    const first = await api.callAs('admin', own, 'GET', `${PATH}?limit=2`);
    const rest = await get(`limit=200&cursor=${first.body.nextCursor}`);
    expect([...first.body.items.map(({ id }: { id: string }) => id), ...rest].slice(0, 3)).toEqual(ids);
    expect(await get('status=revoked')).toEqual([ids[0]]);
    expect(await get('mode=test')).toEqual([ids[1]]);
  });
});

test('a page of keys in one state reads at most 5,000 keys', async () => {
  const other = await api.tenant();
  const list = async (query: string) =>
    (await api.callAs('admin', other, 'GET', `${PATH}?status=active&limit=1${query}`)).body;
  await api.callAs('admin', other, 'POST', PATH, { name: 'Oldest' });
  await api.admin`insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash, revoked_at)
    select gen_random_uuid(), ${other.id}, gen_random_uuid()::text, 'Revoked', 'live', '{messages:send}', '', now()
    from generate_series(1, 5001)`;
  const first = await list('');
  expect(first.items).toEqual([]);
  const second = await list(`&cursor=${first.nextCursor}`);
  expect(second).toMatchObject({ items: [{ name: 'Oldest' }] });
});

describe('changing a key', () => {
  test('changes only the fields sent; null removes a rate limit or an expiry', async () => {
    const { id, prefix } = await create({ rateLimitRpm: 10 });
    const expiresAt = new Date(Date.now() + HOUR).toISOString();
    const changed = await asAdmin('PATCH', `${PATH}/${id}`, {
      name: 'Renamed',
      expiresAt,
      scopes: ['messages:send'],
    });
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({
      name: 'Renamed',
      prefix,
      rateLimitRpm: 10,
      expiresAt,
      scopes: ['messages:send'],
    });
    expect(changed.body).not.toHaveProperty('key');
    const cleared = await asAdmin('PATCH', `${PATH}/${id}`, { rateLimitRpm: null, expiresAt: null });
    expect(cleared.body).toMatchObject({ name: 'Renamed', rateLimitRpm: null, expiresAt: null });
    expect(api.notices).toContainEqual({ kind: 'key', notice: { tenantId: tenant.id, id } });
  });

  test('with an empty body answers 200 and writes no audit entry', async () => {
    const { id } = await create();
    expect((await asAdmin('PATCH', `${PATH}/${id}`, {})).status).toBe(200);
    expect((await api.admin`select from audit_log where target = ${id}`).length).toBe(1);
  });

  test.each([
    [{ name: null }],
    [{ scopes: null }],
    [{ rateLimitRpm: -1 }],
    [{ expiresAt: '2001-01-01T00:00:00Z' }],
  ])('refuses %j with 400', async (change) => {
    expect((await asAdmin('PATCH', `${PATH}/${(await create()).id}`, change)).status).toBe(400);
  });

  test('revoking is permanent and idempotent, and the record stays', async () => {
    const { id } = await create();
    const replies = [await asAdmin('DELETE', `${PATH}/${id}`), await asAdmin('DELETE', `${PATH}/${id}`)];
    expect(replies.map(({ status, text }) => [status, text])).toEqual([
      [204, ''],
      [204, ''],
    ]);
    expect((await asAdmin('GET', `${PATH}/${id}`)).body.status).toBe('revoked');
    const refused = [
      await asAdmin('PATCH', `${PATH}/${id}`, { name: 'Back' }),
      await asAdmin('POST', `${PATH}/${id}/rotate`, {}),
    ];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual([
      [409, 'invalid_state'],
      [409, 'invalid_state'],
    ]);
    const audit = await api.admin<
      { action: string }[]
    >`select action from audit_log where target = ${id} order by seq`;
    expect(audit.map(({ action }) => action)).toEqual(['api_key.created', 'api_key.revoked']);
  });
});

test('PATCH of an expired key is 409, and the key stays expired', async () => {
  const { id } = await create();
  await api.admin`update api_keys set expires_at = now() where id = ${id}`;
  for (const body of [
    { expiresAt: null },
    { expiresAt: new Date(Date.now() + HOUR).toISOString() },
    { name: 'New' },
  ]) {
    const { status, body: refusal } = await asAdmin('PATCH', `${PATH}/${id}`, body);
    expect([status, refusal.code, refusal.message]).toEqual([409, 'invalid_state', 'API key is expired']);
  }
  expect((await asAdmin('GET', `${PATH}/${id}`)).body.status).toBe('expired');
});

describe('rotating a key', () => {
  const codeOf = async (key: string) =>
    (await api.call('GET', '/v1/messages', { headers: { 'x-service-key': key } })).body.code;

  test('without a body keeps the previous secret valid for a day', async () => {
    const before = await create();
    const { status, body } = await asAdmin('POST', `${PATH}/${before.id}/rotate`);
    expect([status, body.status]).toEqual([200, 'rotating']);
    expect(Math.abs(Date.parse(body.graceUntil) - Date.now() - 24 * HOUR)).toBeLessThan(10_000);
    expect([await codeOf(before.key), await codeOf(body.key)]).toEqual([undefined, undefined]);
  });

  test('a previous secret is refused as rotated, and as revoked once the key is revoked', async () => {
    const before = await create();
    const { body } = await asAdmin('POST', `${PATH}/${before.id}/rotate`, { graceSeconds: 0 });
    expect([await codeOf(before.key), await codeOf(body.key)]).toEqual(['api_key_rotated', undefined]);
    const graced = await asAdmin('POST', `${PATH}/${before.id}/rotate`, { graceSeconds: 60 });
    await api.admin`update api_keys set grace_until = now() where id = ${before.id}`;
    await api.admin`select forget_replaced_secrets()`;
    await asAdmin('PATCH', `${PATH}/${before.id}`, { name: 'Told' });
    expect([await codeOf(body.key), await codeOf(graced.body.key)]).toEqual(['api_key_rotated', undefined]);
    await asAdmin('DELETE', `${PATH}/${before.id}`);
    expect([await codeOf(body.key), await codeOf(graced.body.key)]).toEqual([
      'api_key_revoked',
      'api_key_revoked',
    ]);
  });

  test('without a grace period replaces the secret immediately', async () => {
    const before = await create();
    const { status, body } = await asAdmin('POST', `${PATH}/${before.id}/rotate`, { graceSeconds: 0 });
    expect([status, body.id, body.prefix, body.status]).toEqual([200, before.id, before.prefix, 'active']);
    expect(body.key).not.toBe(before.key);
    expect((await hashesOf(before.id))?.secret_hash).toEqual(hashOf(body.key));
    expect(body.graceUntil).toBeNull();
  });

  test('with graceSeconds keeps the previous secret until the grace period ends', async () => {
    const before = await create();
    const { body } = await asAdmin('POST', `${PATH}/${before.id}/rotate`, { grace_seconds: 3600 });
    expect(body.status).toBe('rotating');
    expect(Math.abs(Date.parse(body.graceUntil) - Date.now() - HOUR)).toBeLessThan(10_000);
    expect(await hashesOf(before.id)).toEqual({
      secret_hash: hashOf(body.key),
      previous_secret_hash: hashOf(before.key),
    });
    await api.admin`update api_keys set grace_until = now() where id = ${before.id}`;
    expect((await asAdmin('GET', `${PATH}/${before.id}`)).body).toMatchObject({
      status: 'active',
      graceUntil: null,
    });
  });

  test.each([-1, 604_801, '60'])('refuses graceSeconds %j with 400', async (graceSeconds) => {
    expect((await asAdmin('POST', `${PATH}/${(await create()).id}/rotate`, { graceSeconds })).status).toBe(
      400,
    );
  });

  test('is refused during a grace period, which stays unchanged, unless graceSeconds is 0', async () => {
    const before = await create();
    const first = (await asAdmin('POST', `${PATH}/${before.id}/rotate`, { graceSeconds: 3600 })).body;
    for (const body of [undefined, {}, { graceSeconds: 60 }, { graceSeconds: 604_800 }]) {
      const { status, body: refusal } = await asAdmin('POST', `${PATH}/${before.id}/rotate`, body);
      expect([status, refusal.code]).toEqual([409, 'invalid_state']);
      expect(refusal.message).toContain(first.graceUntil);
      expect(refusal.message).toContain('graceSeconds 0');
    }
    expect([await codeOf(before.key), await codeOf(first.key)]).toEqual([undefined, undefined]);

    const last = (await asAdmin('POST', `${PATH}/${before.id}/rotate`, { graceSeconds: 0 })).body;
    expect([await codeOf(before.key), await codeOf(first.key), await codeOf(last.key)]).toEqual([
      'api_key_rotated',
      'api_key_rotated',
      undefined,
    ]);
    await asAdmin('DELETE', `${PATH}/${before.id}`);
    expect([await codeOf(before.key), await codeOf(first.key)]).toEqual([
      'api_key_revoked',
      'api_key_revoked',
    ]);
  });

  test('happens once per idempotency key; a replay returns the same secret, which is not stored', async () => {
    const [one, other] = [await create(), await create()];
    const rotate = (id: string, body: object) => asAdmin('POST', `${PATH}/${id}/rotate`, body, 'rotate-once');
    const first = await rotate(one.id, { graceSeconds: 60 });
    const again = await rotate(one.id, { graceSeconds: 60 });
    expect([again.status, again.headers['idempotent-replayed'], again.body]).toEqual([
      200,
      'true',
      first.body,
    ]);
    expect((await hashesOf(one.id))?.secret_hash).toEqual(hashOf(first.body.key));
    expect(await codeOf(one.key)).toBeUndefined();
    const refused = [await rotate(one.id, { graceSeconds: 0 }), await rotate(other.id, { graceSeconds: 60 })];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual([
      [409, 'idempotency_mismatch'],
      [409, 'idempotency_mismatch'],
    ]);
    const kept =
      await api.admin`select response::text from idempotency_keys where response::text like ${`%${one.id}%`}`;
    expect(JSON.stringify(kept)).not.toContain(parseServiceKey(first.body.key)?.secret);
  });

  test('refuses an expired key', async () => {
    const { id } = await create();
    await api.admin`update api_keys set expires_at = now() where id = ${id}`;
    const { status, body } = await asAdmin('POST', `${PATH}/${id}/rotate`, {});
    expect([status, body.code]).toEqual([409, 'invalid_state']);
    expect((await asAdmin('GET', `${PATH}/${id}`)).body.status).toBe('expired');
  });
});

test('no API key secret is logged', async () => {
  const { id, key } = await create();
  const log = api.logLines.join('\n');
  expect(log).toContain(id);
  expect(log).not.toContain(parseServiceKey(key)?.secret);
});
