import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { webhookKeyBinding } from '#core/domain/storage/binding.ts';
import { loadWebhookKeys } from '#core/store/webhooks/webhook-keys.ts';
import type { TestTenant } from '#test/support/admin-api.ts';
import {
  ENDPOINTS_PATH,
  endpointLimits,
  startWebhookApi,
  type WebhookApi,
} from '#test/support/webhook-api.ts';

let hooks: WebhookApi;
let api: WebhookApi['api'];
let createFor: WebhookApi['createFor'];
let open: WebhookApi['open'];
let auditOf: WebhookApi['auditOf'];

beforeAll(async () => {
  hooks = await startWebhookApi();
  ({ api, createFor, open, auditOf } = hooks);
});
afterAll(async () => {
  await hooks[Symbol.asyncDispose]();
});

describe('the v1a signing keys', () => {
  const jwks = async (of: TestTenant) => {
    const reply = await api.call('GET', `/v1/webhook-keys/${of.id}/jwks.json`);
    expect([reply.status, reply.headers['cache-control']]).toEqual([200, 'public, max-age=60']);
    return reply.body.keys as Record<string, string>[];
  };

  test('are created once, with the first endpoint that uses v1a, and are published in the JWKS', async () => {
    const own = await api.tenant(endpointLimits(10));
    await createFor(own);
    const rows = () => api.admin`select * from webhook_keys where tenant_id = ${own.id} order by signs_from`;
    expect(await rows()).toHaveLength(0);
    await Promise.all([1, 2, 3].map(() => createFor(own, { signatures: ['v1', 'v1a'] })));
    const [key, ...others] = await rows();
    expect(others).toEqual([]);
    expect(await jwks(own)).toEqual([
      { kty: 'OKP', crv: 'Ed25519', x: key?.['public_key'], kid: key?.['id'], use: 'sig', alg: 'EdDSA' },
    ]);
    const plain = await open(webhookKeyBinding(own.id, key?.['id']), key?.['ciphertext']);
    expect(plain.subarray(0, 16).toString('hex')).toBe('302e020100300506032b657004220420');
  });

  test('are rotated once per idempotency key, and the previous key stays published', async () => {
    const own = await api.tenant(endpointLimits(10));
    const { id } = await createFor(own);
    await api.callAs('admin', own, 'PATCH', `${ENDPOINTS_PATH}/${id}`, { signatures: ['v1a'] });
    const rotate = (key?: string) =>
      api.callAs('admin', own, 'POST', '/v1/admin/webhook-keys/rotate', {}, key);
    const first = await rotate('keys-once');
    expect([first.status, first.body.kty]).toEqual([201, 'OKP']);
    expect((await rotate('keys-once')).body).toEqual(first.body);
    const shown = await jwks(own);
    expect(shown).toHaveLength(2);
    expect(shown[1]).toEqual(first.body);
    const [old] = await api.admin`
      select extract(epoch from shown_until - now())::integer as seconds from webhook_keys
      where id = ${shown[0]?.['kid'] ?? ''}`;
    expect(old).toEqual({ seconds: expect.closeTo(86_520, -2) });
    expect(await auditOf(first.body.kid)).toMatchObject([{ action: 'webhook_key.rotated' }]);
  });

  test('stay published for their grace period and are then deleted', async () => {
    const own = await api.tenant(endpointLimits(20));
    const { id } = await createFor(own);
    await api.callAs('admin', own, 'PATCH', `${ENDPOINTS_PATH}/${id}`, { signatures: ['v1a'] });
    const rotate = async (graceSeconds: number) => {
      const { body } = await api.callAs('admin', own, 'POST', '/v1/admin/webhook-keys/rotate', {
        graceSeconds,
      });
      return String(body.kid);
    };
    const idsOf = async () => {
      const rows = await api.admin<{ id: string }[]>`
        select id from webhook_keys where tenant_id = ${own.id} order by signs_from desc`;
      return rows.map((row) => row.id);
    };
    const second = await rotate(600);
    const third = await rotate(604_800);
    const [, , first] = await idsOf();
    await api.admin`select forget_replaced_secrets()`;
    expect(await idsOf()).toEqual([third, second, first]);
    // Twelve minutes: two until the new key signs, and ten for which the former key stays published.
    await api.admin`
      update webhook_keys set signs_from = signs_from - interval '12 minutes', shown_until = shown_until - interval '12 minutes'
      where tenant_id = ${own.id}`;
    expect((await jwks(own)).map(({ kid }) => kid)).toEqual([third, second]);
    await api.admin`select forget_replaced_secrets()`;
    expect(await idsOf()).toEqual([third, second]);
    // A rotation without grace withdraws all former keys: the tenant no longer trusts them.
    const last = await rotate(0);
    await api.admin`select forget_replaced_secrets()`;
    expect(await idsOf()).toEqual([last]);
  });

  test('are published for longer than a JWKS may be cached before they sign', async () => {
    const own = await api.tenant(endpointLimits(20));
    const { id } = await createFor(own, { signatures: ['v1', 'v1a'] });
    /** Returns the key that signs, the keys whose private part is stored, and the published keys. */
    const look = async () => {
      const [endpoint] = await api.admin`select key_id from load_endpoints(${[id]}::uuid[])`;
      const kept = await api.admin<{ id: string }[]>`
        select id from webhook_keys where tenant_id = ${own.id} and ciphertext is not null order by signs_from`;
      const shown = (await loadWebhookKeys(api.admin, [own.id])).get(own.id) ?? [];
      return [endpoint?.['key_id'], kept.map((key) => key.id), shown.map((key) => key.id)];
    };
    const pass = async (time: string) => {
      await api.admin`
        update webhook_keys set signs_from = signs_from - ${time}::interval, shown_until = shown_until - ${time}::interval
        where tenant_id = ${own.id}`;
      await api.admin`select forget_replaced_secrets()`;
    };
    const rotate = async (graceSeconds: number) => {
      const { body } = await api.callAs('admin', own, 'POST', '/v1/admin/webhook-keys/rotate', {
        graceSeconds,
      });
      return String(body.kid);
    };
    const old = (await jwks(own))[0]?.['kid'];
    expect(await look()).toEqual([old, [old], [old]]);
    const next = await rotate(3_600);
    expect(await look()).toEqual([old, [old, next], [old, next]]);
    // By now every cached copy that an api served at the last moment has expired.
    await pass('66 s');
    expect(await look()).toEqual([old, [old, next], [old, next]]);
    await pass('55 s');
    expect(await look()).toEqual([next, [next], [next, old]]);
    const [third, fourth] = [await rotate(3_600), await rotate(3_600)];
    expect(await look()).toEqual([next, [next, third, fourth], [next, fourth, third, old]]);
    await pass('121 s');
    expect(await look()).toEqual([fourth, [fourth], [fourth, third, next, old]]);
    // A rotation without grace takes effect at once, because the tenant no longer trusts the former keys.
    const last = await rotate(0);
    expect(await look()).toEqual([last, [last], [last]]);
  });

  test('that are withdrawn raise the version of the endpoints that use them', async () => {
    const [own, foreign] = [await api.tenant(endpointLimits(20)), await api.tenant(endpointLimits(20))];
    const signed = { signatures: ['v1', 'v1a'] };
    const [one, other] = [await createFor(own, signed), await createFor(foreign, signed)];
    const [plain, gone] = [await createFor(own), await createFor(own, signed)];
    await api.callAs('admin', own, 'DELETE', `${ENDPOINTS_PATH}/${gone.id}`);
    const ids = [one.id, other.id, plain.id, gone.id];
    const rows = () => api.admin<{ id: string; version: number }[]>`
      select id, version from webhook_endpoints where id = any (${ids}::uuid[])`;
    const before = new Map((await rows()).map(({ id, version }) => [id, version]));
    const raised = async () =>
      (await rows()).flatMap(({ id, version }) => (before.get(id) === version ? [] : [id]));
    const rotate = (graceSeconds: number) =>
      api.callAs('admin', own, 'POST', '/v1/admin/webhook-keys/rotate', { graceSeconds });
    await rotate(600);
    expect(await raised()).toEqual([]);
    await rotate(0);
    expect(await raised()).toEqual([one.id]);
  });

  test('are read again after a rotation, also by other processes', async () => {
    const own = await api.tenant(endpointLimits(10));
    await createFor(own, { signatures: ['v1', 'v1a'] });
    const shown = async () => (await jwks(own)).map(({ kid }) => kid);
    const [old] = await shown();
    const { body } = await api.callAs('admin', own, 'POST', '/v1/admin/webhook-keys/rotate', {
      graceSeconds: 0,
    });
    expect(await shown()).toEqual([body.kid]);
    expect(api.notices).toContainEqual({ kind: 'webhook_key', notice: { tenantId: own.id } });
    await api.admin`update webhook_keys set shown_until = now() + interval '1 hour' where id = ${old ?? ''}`;
    expect(await shown()).toEqual([body.kid]);
    api.notice('webhook_key', { tenantId: own.id });
    expect(await shown()).toEqual([body.kid, old]);
  });

  test('of an unknown tenant are an empty set, and an invalid tenant id is 404', async () => {
    const { status, body } = await api.call('GET', `/v1/webhook-keys/${randomUUID()}/jwks.json`);
    expect([status, body]).toEqual([200, { keys: [] }]);
    expect((await api.call('GET', '/v1/webhook-keys/x/jwks.json')).status).toBe(404);
  });
});
