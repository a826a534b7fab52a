import { createSecretKey } from 'node:crypto';
import crypto, { randomUUID } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ApiKeyId, TenantId } from '#core/domain/storage/ids.ts';
import {
  formatServiceKey,
  hashKeySecret,
  newKeyId,
  parseServiceKey,
} from '#core/domain/tenant/service-key.ts';
import type { ApiKeyFacts, CallerFacts, TenantFacts } from '#core/store/tenants/directory.ts';
import {
  LEAST,
  request,
  send,
  startTestApi,
  type ApiTenant,
  type Reply,
  type TestApi,
} from '#test/support/api.ts';
import { createServiceKeys } from '../../services/api/auth/service-keys.ts';

const SECRET = 'S'.repeat(43);
const OTHER = 'T'.repeat(43);

describe('over the api', () => {
  let api: TestApi;
  let tenant: ApiTenant;
  beforeAll(async () => {
    api = await startTestApi();
    tenant = await api.tenant();
  });
  afterAll(() => api[Symbol.asyncDispose]());

  const REFUSED = {
    status: 401,
    code: 'unauthenticated',
    message: 'Missing or invalid authentication: the API key in X-Service-Key is not valid',
  };
  const answerOf = ({ status, body: { code, message } }: Reply) => ({ status, code, message });
  const answerTo = async (key: string) =>
    answerOf(
      await request(api.first, 'POST', '/v1/messages', {
        headers: { 'x-service-key': key },
        body: LEAST.sms,
      }),
    );
  const partsOf = (text: string) => {
    const parsed = parseServiceKey(text);
    if (parsed === null) throw new Error('the key of the test is none');
    return parsed;
  };

  test('a truncated, doubled or modified key is rejected, and the whole key is accepted', async () => {
    const { text } = tenant.key;
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(202);
    const cut = Array.from({ length: text.length }, (_, length) => text.slice(0, length));
    const swapped = Array.from(
      text,
      (character, i) => text.slice(0, i) + (character === 'a' ? 'b' : 'a') + text.slice(i + 1),
    );
    const odd = [
      `${text}${text}`,
      `${text}0`,
      `"${text}"`,
      `Bearer ${text}`,
      text.toUpperCase(),
      text.replaceAll('_', '-'),
      text.replace('dsp', 'dsp\u00ad'),
      `${text.slice(0, 20)}\u00e9${text.slice(21)}`,
      `${text}\u00a0x`,
      encodeURIComponent(`${text} `),
      Buffer.from(text).toString('base64'),
    ];
    for (const key of [...cut, ...swapped, ...odd].filter((one) => one !== text)) {
      expect([key, await answerTo(key)]).toEqual([key, REFUSED]);
    }
    // The parser joins two headers so. Nothing of them is looked up.
    const once =
      'Missing or invalid authentication: header X-Service-Key must be given once, with one API key';
    for (const twice of [`${text}, ${text}`, `${text},x`, ',']) {
      expect(await answerTo(twice)).toEqual({ ...REFUSED, message: once });
    }
    expect((await send(api.first, tenant.key, LEAST.sms)).status).toBe(202);
  });

  test('a key with a valid checksum but a wrong mode, id or secret is rejected like an unknown one', async () => {
    const mine = partsOf(tenant.key.text);
    const theirs = partsOf((await api.tenant()).key.text);
    const wrong = [
      { ...mine, mode: 'test' as const },
      { ...mine, secret: theirs.secret },
      { ...mine, keyId: theirs.keyId },
      { ...mine, secret: OTHER },
      { ...mine, keyId: newKeyId() },
    ];
    const answers = await Promise.all(wrong.map((parts) => answerTo(formatServiceKey(parts))));
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify(REFUSED)]),
    );
  });

  test('a wrong secret does not reveal that its key is revoked or expired', async () => {
    const revoked = await api.key(tenant.tenantId, { revokedAt: new Date() });
    const expired = await api.key(tenant.tenantId, { expiresAt: new Date(Date.now() - 1_000) });
    const guess = (text: string) => answerTo(formatServiceKey({ ...partsOf(text), secret: OTHER }));
    expect([await guess(revoked.text), await guess(expired.text)]).toEqual([REFUSED, REFUSED]);
    expect([(await answerTo(revoked.text)).code, (await answerTo(expired.text)).code]).toEqual([
      'api_key_revoked',
      'api_key_expired',
    ]);
  });

  test('a revoked key is rejected with its previous secret too, even within the grace period', async () => {
    const key = await api.key(tenant.tenantId);
    await api.admin`update api_keys set previous_secret_hash = secret_hash, secret_hash = ${Buffer.alloc(32, 1)},
      grace_until = now() + interval '1 hour' where id = ${key.id}`;
    expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
    await api.admin`update api_keys set revoked_at = now() where id = ${key.id}`;
    api.first.notice('key', { tenantId: tenant.tenantId, id: key.id });
    expect((await answerTo(key.text)).code).toBe('api_key_revoked');
  });

  test('after two rotations the first secret is rejected during the grace period of the second', async () => {
    const key = await api.key(tenant.tenantId);
    const first = partsOf(key.text);
    const hashes = await api.admin<
      { secret_hash: Buffer }[]
    >`select secret_hash from api_keys where id = ${key.id}`;
    await api.admin`update api_keys set previous_secret_hash = ${Buffer.alloc(32, 1)}, secret_hash = ${Buffer.alloc(32, 2)},
      grace_until = now() + interval '1 hour' where id = ${key.id}`;
    expect(await answerTo(formatServiceKey(first))).toEqual(REFUSED);
    await api.admin`update api_keys set previous_secret_hash = ${hashes[0]?.secret_hash ?? Buffer.alloc(0)} where id = ${key.id}`;
    api.first.notice('key', { tenantId: tenant.tenantId, id: key.id });
    expect((await answerTo(formatServiceKey(first))).status).toBe(202);
  });

  test('a key acts in its own tenant, whatever tenant the request names', async () => {
    const other = await api.tenant();
    const reply = await request(api.first, 'POST', '/v1/messages', {
      headers: { 'x-service-key': tenant.key.text, 'x-tenant-slug': other.slug },
      body: { ...LEAST.sms, tenantId: other.tenantId },
    });
    expect(reply.status).toBe(202);
    const [row] = await api.admin`select tenant_id from messages where id = ${reply.body.id}`;
    expect(row?.['tenant_id']).toBe(tenant.tenantId);
  });
});

describe('timing of a guessed key', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    syncBuiltinESMExports();
  });

  /** Creates the key check over a directory with one key. It records every comparison and every query. */
  function setup(facts: Partial<ApiKeyFacts> = {}) {
    const subkey = createSecretKey(Buffer.alloc(32, 7));
    const keyId = newKeyId();
    const key: ApiKeyFacts = {
      id: randomUUID() as ApiKeyId,
      mode: 'live',
      scopes: ['messages:send'],
      rateLimitRpm: null,
      secretHash: hashKeySecret(subkey, SECRET),
      previousSecretHash: null,
      formerSecretHashes: [],
      graceUntil: null,
      expiresAt: null,
      revokedAt: null,
      ...facts,
    };
    const tenant = { id: randomUUID() as TenantId } as TenantFacts;
    const known: CallerFacts = { key, tenant, sendingAccounts: [], routes: [] };
    const asked: string[] = [];
    const deps = {
      findCaller: async (id: string) => {
        asked.push(id);
        return id === keyId ? known : null;
      },
      touchApiKeys: async () => {},
      hashSubkey: subkey,
    };
    const compare = vi.spyOn(crypto, 'timingSafeEqual');
    syncBuiltinESMExports();
    /** Checks each guess with an empty cache, as a new process would. */
    const guess = async (text: string) => {
      compare.mockClear();
      asked.length = 0;
      const outcome = await Promise.resolve()
        .then(() => createServiceKeys(deps).verify(text))
        .then(
          () => 'good',
          (error: unknown) => (error as { code: string }).code,
        );
      const lengths = compare.mock.calls.map(([left, right]) => [left.byteLength, right.byteLength]);
      return { outcome, questions: asked.length, lengths };
    };
    return { keyId, guess };
  }

  const COMPARED_TWICE = [
    [32, 32],
    [32, 32],
  ];

  test('an unknown id and a wrong secret take the same steps as a valid key: one query, two comparisons', async () => {
    const { keyId, guess } = setup();
    const key = (parts: { keyId?: string; secret?: string; mode?: 'live' | 'test' }) =>
      guess(formatServiceKey({ mode: 'live', keyId, secret: SECRET, ...parts }));
    const steps = { questions: 1, lengths: COMPARED_TWICE };
    expect(await key({})).toEqual({ outcome: 'good', ...steps });
    expect(await key({ secret: OTHER })).toEqual({ outcome: 'unauthenticated', ...steps });
    expect(await key({ keyId: newKeyId() })).toEqual({ outcome: 'unauthenticated', ...steps });
    expect(await key({ mode: 'test' })).toEqual({ outcome: 'unauthenticated', ...steps });
  });

  test.each<[string, Partial<ApiKeyFacts>]>([
    ['revoked', { revokedAt: new Date(0) }],
    ['expired', { expiresAt: new Date(0) }],
    ['rotating', { previousSecretHash: Buffer.alloc(32, 9), graceUntil: new Date(8e15) }],
    ['rotated', { previousSecretHash: Buffer.alloc(32, 9), graceUntil: new Date(0) }],
  ])('a wrong secret for a key that is %s takes the same steps too', async (_, facts) => {
    const { keyId, guess } = setup(facts);
    const text = formatServiceKey({ mode: 'live', keyId, secret: OTHER });
    expect(await guess(text)).toEqual({ outcome: 'unauthenticated', questions: 1, lengths: COMPARED_TWICE });
  });

  test('a key without a valid checksum causes no database query and no comparison', async () => {
    const { keyId, guess } = setup();
    const good = formatServiceKey({ mode: 'live', keyId, secret: SECRET });
    const nothing = { outcome: 'unauthenticated', questions: 0, lengths: [] };
    const typo = good.slice(0, -1) + (good.endsWith('0') ? '1' : '0');
    // The first letter replaced by its full-width form, and the `i` by its Cyrillic look-alike.
    const alike = [good.replace('d', '\uff44'), good.replace('i', '\u0456')];
    const texts = [typo, good.slice(0, -7), '', 'dsp_live_', `${good}\n`, '\ud800'.repeat(76), ...alike];
    for (const text of texts) {
      expect([text, await guess(text)]).toEqual([text, nothing]);
    }
  });
});
