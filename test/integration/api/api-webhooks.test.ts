import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { webhookCertificateBinding, webhookKeyBinding, webhookSecretBinding } from '#core/domain/binding.ts';
import type { Limits } from '#core/domain/plan.ts';
import type { Role } from '#core/domain/role.ts';
import { loadWebhookKeys } from '#core/store/webhook-keys.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { makeCertificates } from '#test/support/certificates.ts';

const PATH = '/v1/admin/webhook-endpoints';
const LEAST = { url: 'https://shop.example.com/hooks?for=despatch', eventTypes: ['message.*'] };
const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;
const TOKEN = 'Bearer a-token-that-ends-in-4f2a';

let api: AdminApi;
let tenant: TestTenant;
const folder = mkdtempSync(join(tmpdir(), 'despatch-certificates-'));

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant(limits(1_000));
  makeCertificates(folder);
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await api[Symbol.asyncDispose]();
});

const limits = (webhookEndpointsMax: number): Partial<Limits> => ({ webhookEndpointsMax });
const pem = (name: string): string => readFileSync(join(folder, name), 'utf8');
const asAdmin = (method: string, url: string, body?: unknown, key?: string): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body, key);
const createFor = async (of: TestTenant, body: object = {}): Promise<Reply['body']> => {
  const reply = await api.callAs('admin', of, 'POST', PATH, { ...LEAST, ...body });
  expect([reply.status, reply.body.code]).toEqual([201, undefined]);
  return reply.body;
};
const create = (body: object = {}): Promise<Reply['body']> => createFor(tenant, body);
const rowOf = async (id: string) => {
  const [row] = await api.admin`select * from webhook_endpoints where id = ${id}`;
  return row as Record<string, never>;
};
const open = async (binding: Parameters<AdminApi['keyring']['decrypt']>[0], ciphertext: string) =>
  Buffer.from(await api.keyring.decrypt(binding, ciphertext));
const secretIn = async (ciphertext: string, id: string): Promise<string> =>
  (await open(webhookSecretBinding(tenant.id, id), ciphertext)).toString();
const auditOf = (target: string) => api.admin<{ action: string; changes: unknown; target_name: string }[]>`
  select action, changes, target_name from audit_log where target = ${target} order by seq`;
const details = ({ status, body }: Reply) => [
  status,
  body.code,
  ...(body.details ?? []).map(({ field, rule }: { field: string; rule: string }) => `${field}: ${rule}`),
];

describe('creating an endpoint', () => {
  test('answers 201 with the secret, shown this once and stored encrypted', async () => {
    const { status, body } = await asAdmin('POST', PATH, LEAST);
    expect(status).toBe(201);
    const { secret, ...endpoint } = body;
    expect(secret).toMatch(SECRET);
    expect(endpoint).toEqual({
      ...LEAST,
      id: expect.any(String),
      description: null,
      finalOnly: false,
      channels: [],
      tags: [],
      headers: {},
      ordered: false,
      maskRecipients: false,
      rateLimitPerSecond: null,
      signatures: ['v1'],
      hasClientCertificate: false,
      status: 'active',
      statusReason: null,
      failures: 0,
      failingSince: null,
      secretVersion: 1,
      previousSecretUntil: null,
      lastSeq: 0,
      pending: 0,
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
    const row = await rowOf(body.id);
    expect(await secretIn(row['secret'] ?? '', body.id)).toBe(secret);
    const shown = [await asAdmin('GET', `${PATH}/${body.id}`), await asAdmin('GET', PATH)];
    expect(shown[0]?.body).toEqual(endpoint);
    for (const { text } of shown) expect(text).not.toContain(secret.slice(6));
    expect(await auditOf(body.id)).toMatchObject([
      { action: 'webhook_endpoint.created', target_name: 'https://shop.example.com/hooks' },
    ]);
    expect(api.notices).toContainEqual({
      kind: 'endpoint',
      notice: { tenantId: tenant.id, id: body.id, changed: 'settings' },
    });
  });

  test('takes every setting, in either spelling, and each thing of a list once', async () => {
    const certificate = { certificate: pem('client.pem'), key: pem('client.key') };
    const body = await create({
      description: 'All of it',
      event_types: undefined,
      eventTypes: ['message.sent', '*', 'message.sent', 'provider.*'],
      final_only: true,
      channels: ['sms', 'email', 'sms'],
      tags: ['a', 'b', 'a'],
      headers: { Authorization: TOKEN, 'X-Key': 'short', 'X-Shop': 'one' },
      ordered: true,
      mask_recipients: true,
      rate_limit_per_second: 1_000,
      signatures: ['v1a'],
      client_certificate: certificate,
    });
    expect(body).toMatchObject({
      description: 'All of it',
      eventTypes: ['message.sent', '*', 'provider.*'],
      finalOnly: true,
      channels: ['sms', 'email'],
      tags: ['a', 'b'],
      headers: { Authorization: '…4f2a', 'X-Key': '…', 'X-Shop': 'one' },
      ordered: true,
      maskRecipients: true,
      rateLimitPerSecond: 1_000,
      signatures: ['v1', 'v1a'],
      hasClientCertificate: true,
    });
    const row = await rowOf(body.id);
    expect(row['headers']).toEqual({ Authorization: TOKEN, 'X-Key': 'short', 'X-Shop': 'one' });
    const stored = await open(webhookCertificateBinding(tenant.id, body.id), row['client_certificate'] ?? '');
    expect(JSON.parse(stored.toString())).toEqual(certificate);
    const { text } = await asAdmin('GET', `${PATH}/${body.id}`);
    for (const secret of [TOKEN, 'PRIVATE KEY', 'CERTIFICATE']) expect(text).not.toContain(secret);
  });

  test.each<[object, string, string]>([
    [{ url: undefined }, 'missing_field', 'url: required'],
    [{ eventTypes: undefined }, 'missing_field', 'eventTypes: required'],
    [{ url: 'shop.example.com' }, 'validation_failed', 'url: url'],
    [{ url: 'https://user:pass@shop.example.com/' }, 'validation_failed', 'url: url'],
    [{ url: 'https://shop.example.com/#a' }, 'validation_failed', 'url: url'],
    [{ url: 'ftp://shop.example.com/' }, 'validation_failed', 'url: url'],
    [{ url: `https://shop.example.com/${'a'.repeat(2_000)}` }, 'validation_failed', 'url: max'],
    [{ url: 'http://shop.example.com/' }, 'validation_failed', 'url: https'],
    [{ url: 'https://shop.example.com:8443/' }, 'validation_failed', 'url: port'],
    [{ url: 'https://127.0.0.1/' }, 'url_blocked', 'url: url_blocked'],
    [{ url: 'https://0x7f.1/' }, 'url_blocked', 'url: url_blocked'],
    [{ url: 'https://[::ffff:10.0.0.1]/' }, 'url_blocked', 'url: url_blocked'],
    [{ url: 'https://[64:ff9b::169.254.169.254]/' }, 'url_blocked', 'url: url_blocked'],
    [{ url: 'https://localhost/' }, 'url_blocked', 'url: url_blocked'],
    [{ eventTypes: [] }, 'validation_failed', 'eventTypes: min'],
    [{ eventTypes: ['message.read'] }, 'validation_failed', 'eventTypes.0: enum'],
    [{ eventTypes: ['mess*'] }, 'validation_failed', 'eventTypes.0: enum'],
    [{ eventTypes: Array.from({ length: 51 }, () => '*') }, 'validation_failed', 'eventTypes: max'],
    [{ description: 'x'.repeat(501) }, 'validation_failed', 'description: max'],
    [{ finalOnly: 'yes' }, 'validation_failed', 'finalOnly: type'],
    [{ channels: ['fax'] }, 'validation_failed', 'channels.0: enum'],
    [{ tags: Array.from({ length: 11 }, (_, n) => `${n}`) }, 'validation_failed', 'tags: max'],
    [{ headers: { Host: 'x' } }, 'validation_failed', 'headers.Host: reserved'],
    [{ headers: { 'a b': 'x' } }, 'validation_failed', 'headers.a b: name'],
    [{ headers: { 'x-a': 'a\r\nb' } }, 'validation_failed', 'headers.x-a: value'],
    [
      { headers: Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`x-${n}`, 'x'])) },
      'validation_failed',
      'headers: max',
    ],
    [{ rateLimitPerSecond: 0 }, 'validation_failed', 'rateLimitPerSecond: min'],
    [{ rateLimitPerSecond: 1_001 }, 'validation_failed', 'rateLimitPerSecond: max'],
    [{ signatures: ['v2'] }, 'validation_failed', 'signatures.0: enum'],
    [
      { clientCertificate: { certificate: 'x', key: 'y' } },
      'validation_failed',
      'clientCertificate.certificate: pem',
    ],
  ])('refuses %j', async (change, code, fault) => {
    const reply = await asAdmin('POST', PATH, { ...LEAST, ...change });
    expect(details(reply)).toEqual([400, code, fault]);
  });

  test('tells all faults at once, and what was meant by a field that nobody reads', async () => {
    const reply = await asAdmin('POST', PATH, {
      ...LEAST,
      eventTypes: ['nope'],
      headers: { host: 'x', 'x-a': '' },
      tags: [''],
    });
    expect(details(reply)).toEqual([
      400,
      'validation_failed',
      'eventTypes.0: enum',
      'tags.0: min',
      'headers.host: reserved',
      'headers.x-a: value',
    ]);
    const { warnings } = await create({ eventType: ['message.*'], custom_headers: {}, enabledEvents: ['*'] });
    expect(warnings).toEqual([
      { field: 'eventType', message: "Unknown field, ignored: did you mean 'eventTypes'?" },
      { field: 'custom_headers', message: "Unknown field, ignored: did you mean 'headers'?" },
      { field: 'enabledEvents', message: "Unknown field, ignored: did you mean 'eventTypes'?" },
    ]);
  });

  test.each([
    ['the key of another certificate', { certificate: 'client.pem', key: 'server.key' }, 'key: match'],
    ['a certificate in the place of the key', { certificate: 'client.pem', key: 'client.pem' }, 'key: pem'],
    [
      'a key in the place of the certificate',
      { certificate: 'client.key', key: 'client.key' },
      'certificate: pem',
    ],
  ])('refuses %s', async (_, files, fault) => {
    const clientCertificate = { certificate: pem(files.certificate), key: pem(files.key) };
    const reply = await asAdmin('POST', PATH, { ...LEAST, clientCertificate });
    expect(details(reply)).toEqual([400, 'validation_failed', `clientCertificate.${fault}`]);
  });

  test('a replay shows the same secret again, though it is stored nowhere but encrypted', async () => {
    const first = await asAdmin('POST', PATH, LEAST, 'endpoint-once');
    const again = await asAdmin('POST', PATH, { ...LEAST, idempotency_key: 'endpoint-once' });
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(again.body).toEqual(first.body);
    const [stored] = await api.admin<{ found: boolean }[]>`
      select bool_or(t::text like ${`%${first.body.secret.slice(6, 40)}%`}) as found from idempotency_keys t`;
    expect(stored?.found).toBe(false);
    const other = await asAdmin('POST', PATH, { ...LEAST, ordered: true }, 'endpoint-once');
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_mismatch']);
  });

  test('ends exactly at the limit of the plan; deleted ones do not count', async () => {
    const own = await api.tenant(limits(2));
    const make = () => api.callAs('admin', own, 'POST', PATH, LEAST);
    const replies = await Promise.all(Array.from({ length: 4 }, make));
    expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 201, 403, 403]);
    const refused = replies.find(({ status }) => status === 403);
    expect([refused?.body.code, refused?.body.limit]).toEqual([
      'plan_limit_reached',
      { name: 'webhookEndpointsMax', value: 2 },
    ]);
    const made = replies.find(({ status }) => status === 201);
    expect((await api.callAs('admin', own, 'DELETE', `${PATH}/${made?.body.id}`)).status).toBe(204);
    expect([(await make()).status, (await make()).status]).toEqual([201, 403]);
  });

  test("begins after the newest event of the tenant's feed", async () => {
    const own = await api.tenant(limits(5));
    await api.admin`insert into feed_heads (tenant_id, last_seq, numbered_at) values (${own.id}, 42, now())`;
    const { id } = await createFor(own);
    expect((await rowOf(id))['matched_to']).toBe(42);
  });
});

describe('reading endpoints', () => {
  test('pages newest first, filters by status, and shows viewers everything but secrets', async () => {
    const own = await api.tenant(limits(10));
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.unshift((await createFor(own)).id);
    await api.callAs('admin', own, 'POST', `${PATH}/${ids[1]}/pause`);
    const page = async (query: string) => (await api.callAs('viewer', own, 'GET', `${PATH}?${query}`)).body;
    const idsOf = (body: Reply['body']) => body.items.map(({ id }: { id: string }) => id);
    const first = await page('limit=2');
    expect(idsOf(first)).toEqual(ids.slice(0, 2));
    expect(idsOf(await page(`limit=2&cursor=${first.nextCursor}`))).toEqual(ids.slice(2));
    expect(idsOf(await page('status=paused'))).toEqual([ids[1]]);
    const foreign = await api.callAs('viewer', tenant, 'GET', `${PATH}?cursor=${first.nextCursor}`);
    expect([foreign.status, foreign.body.code]).toEqual([400, 'invalid_cursor']);
  });

  test('shows the values of its query to admins and owners alone', async () => {
    const url = 'https://shop.example.com/hooks?token=s3cret';
    const { id } = await create({ url });
    const one = async (role: Role) => (await api.callAs(role, tenant, 'GET', `${PATH}/${id}`)).body.url;
    const listed = async (role: Role) =>
      (await api.callAs(role, tenant, 'GET', `${PATH}?limit=1`)).body.items[0].url;
    for (const role of ['owner', 'admin'] as const)
      expect([await one(role), await listed(role)]).toEqual([url, url]);
    const shown = 'https://shop.example.com/hooks?token=…';
    for (const role of ['developer', 'viewer'] as const)
      expect([await one(role), await listed(role)]).toEqual([shown, shown]);
  });

  test('says how far its feed is and how much waits, up to a thousand', async () => {
    const { id } = await create();
    await api.admin`
      insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      values (1, 3, 9, now(), ${id}, ${tenant.id}, '2099-01-05', '{1,2,3}', '{0,0,0}')`;
    const due = (n: number) => api.admin`
      insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      select ${id}, ${tenant.id}, 100 * x, 100 * x + 99, '2099-01-05', now() from generate_series(1, ${n}::integer) x`;
    await due(2);
    expect((await asAdmin('GET', `${PATH}/${id}`)).body).toMatchObject({ lastSeq: 3, pending: 200 });
    await due(20);
    expect((await asAdmin('GET', `${PATH}/${id}`)).body).toMatchObject({ pending: 1_000 });
    await api.admin`update webhook_endpoints set purged_to = 7 where id = ${id}`;
    expect((await asAdmin('GET', `${PATH}/${id}`)).body).toMatchObject({ lastSeq: 7 });
  });
});

describe('changing an endpoint', () => {
  test('changes what is sent, leaves the rest, and null takes away', async () => {
    const {
      id,
      secret: _,
      ...before
    } = await create({
      description: 'First',
      rateLimitPerSecond: 5,
      channels: ['sms'],
      tags: ['a'],
      headers: { 'X-Shop': 'one' },
      signatures: ['v1', 'v1a'],
      clientCertificate: { certificate: pem('client.pem'), key: pem('client.key') },
      finalOnly: true,
      maskRecipients: true,
    });
    const changed = await asAdmin('PATCH', `${PATH}/${id}`, { ordered: true, eventTypes: ['*'] });
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({
      ...before,
      id,
      ordered: true,
      eventTypes: ['*'],
      updatedAt: expect.any(String),
    });
    const nulls = {
      description: null,
      rateLimitPerSecond: null,
      channels: null,
      tags: null,
      headers: null,
      signatures: null,
      client_certificate: null,
      finalOnly: null,
      ordered: null,
      maskRecipients: null,
    };
    const cleared = await asAdmin('PATCH', `${PATH}/${id}`, nulls);
    expect(cleared.body).toMatchObject({
      description: null,
      rateLimitPerSecond: null,
      channels: [],
      tags: [],
      headers: {},
      signatures: ['v1'],
      hasClientCertificate: false,
      finalOnly: false,
      ordered: false,
      maskRecipients: false,
    });
    const row = await rowOf(id);
    expect([row['client_certificate'], row['version']]).toEqual([null, 3]);
    expect((await auditOf(id)).slice(1)).toMatchObject([
      {
        action: 'webhook_endpoint.updated',
        changes: [
          { field: 'eventTypes', from: ['message.*'], to: ['*'] },
          { field: 'ordered', from: false, to: true },
        ],
      },
      { changes: expect.arrayContaining([{ field: 'headers' }]) },
    ]);
  });

  test('with nothing to change answers 200 and audits nothing', async () => {
    const { id } = await create();
    expect((await asAdmin('PATCH', `${PATH}/${id}`, {})).status).toBe(200);
    expect(await auditOf(id)).toHaveLength(1);
    expect((await rowOf(id))['version']).toBe(1);
  });

  test.each([
    [{ url: null }, 'missing_field', 'url: required'],
    [{ eventTypes: null }, 'missing_field', 'eventTypes: required'],
    [{ url: 'https://10.0.0.1/' }, 'url_blocked', 'url: url_blocked'],
    [{ headers: { Authorization: '…4f2a' } }, 'validation_failed', 'headers.Authorization: value'],
  ])('refuses %j', async (change, code, fault) => {
    const { id } = await create();
    expect(details(await asAdmin('PATCH', `${PATH}/${id}`, change))).toEqual([400, code, fault]);
  });

  test('headers that hold a secret go to no other server than they were given for', async () => {
    const { id } = await create({ headers: { Authorization: TOKEN } });
    const url = 'https://elsewhere.example.com/hooks';
    expect(details(await asAdmin('PATCH', `${PATH}/${id}`, { url }))).toEqual([
      400,
      'missing_field',
      'headers: required',
    ]);
    const sameServer = await asAdmin('PATCH', `${PATH}/${id}`, { url: 'https://shop.example.com/other' });
    expect(sameServer.status).toBe(200);
    const both = await asAdmin('PATCH', `${PATH}/${id}`, { url, headers: { Authorization: `${TOKEN}!` } });
    expect([both.status, both.body.url]).toEqual([200, url]);
    const { id: plain } = await create({ headers: { 'X-Shop': 'one' } });
    expect((await asAdmin('PATCH', `${PATH}/${plain}`, { url })).status).toBe(200);
  });

  test('what a failing endpoint is called by is tried at once', async () => {
    const { id } = await create();
    const fail = () => api.admin`
      update webhook_endpoints set status = 'failing', failures = 4, failing_since = now(), call_at = now() + interval '1 hour'
      where id = ${id}`;
    const isHeld = async () => {
      const [row] = await api.admin`select call_at > now() as held from webhook_endpoints where id = ${id}`;
      return row?.['held'] as boolean;
    };
    await fail();
    await asAdmin('PATCH', `${PATH}/${id}`, { description: 'Still failing' });
    expect(await isHeld()).toBe(true);
    const { body } = await asAdmin('PATCH', `${PATH}/${id}`, { headers: { 'X-New': 'one' } });
    expect(await isHeld()).toBe(false);
    expect(body).toMatchObject({ status: 'failing', failures: 4, failingSince: expect.any(String) });
  });
});

describe('pausing and resuming', () => {
  test('holds it back, and gives it a fresh start; repeating either changes nothing', async () => {
    const { id } = await create();
    const move = async (to: string) => (await asAdmin('POST', `${PATH}/${id}/${to}`)).body;
    expect(await move('pause')).toMatchObject({ status: 'paused' });
    expect(await move('pause')).toMatchObject({ status: 'paused' });
    expect(await move('resume')).toMatchObject({ status: 'active' });
    expect(await move('resume')).toMatchObject({ status: 'active' });
    await api.admin`
      update webhook_endpoints set status = 'disabled', status_reason = 'gone', failures = 9, failing_since = now(),
        call_at = now() + interval '1 hour' where id = ${id}`;
    expect(await move('pause')).toMatchObject({ status: 'disabled', statusReason: 'gone' });
    expect(await move('resume')).toMatchObject({
      status: 'active',
      statusReason: null,
      failures: 0,
      failingSince: null,
    });
    const [row] =
      await api.admin`select call_at = '-infinity' as open from webhook_endpoints where id = ${id}`;
    expect(row?.['open']).toBe(true);
    expect((await auditOf(id)).map(({ action }) => action)).toEqual([
      'webhook_endpoint.created',
      'webhook_endpoint.paused',
      'webhook_endpoint.resumed',
      'webhook_endpoint.resumed',
    ]);
  });
});

describe('rotating a secret', () => {
  test('shows a new one once, and keeps the former one for as long as is asked', async () => {
    const { id, secret } = await create();
    const url = `${PATH}/${id}/rotate-secret`;
    const first = await asAdmin('POST', url, { graceSeconds: 60 }, 'rotate-once');
    expect(first.status).toBe(200);
    expect(first.body).toEqual({
      id,
      secret: expect.stringMatching(SECRET),
      secretVersion: 2,
      previousSecretUntil: expect.any(String),
    });
    const left = Date.parse(first.body.previousSecretUntil) - Date.now();
    expect(left).toBeGreaterThan(50_000);
    expect(left).toBeLessThan(61_000);
    expect(first.body.secret).not.toBe(secret);
    const row = await rowOf(id);
    expect(await secretIn(row['secret'] ?? '', id)).toBe(first.body.secret);
    expect(await secretIn(row['previous_secret'] ?? '', id)).toBe(secret);
    expect((await asAdmin('POST', url, { graceSeconds: 60 }, 'rotate-once')).body).toEqual(first.body);
    expect((await rowOf(id))['secret_version']).toBe(2);

    const second = await asAdmin('POST', url, { grace_seconds: 0 });
    expect(second.body).toMatchObject({ secretVersion: 3, previousSecretUntil: null });
    expect((await rowOf(id))['previous_secret']).toBeNull();
    const shown = await asAdmin('GET', `${PATH}/${id}`);
    expect(shown.body).toMatchObject({ secretVersion: 3, previousSecretUntil: null });
    expect(await auditOf(id)).toMatchObject([
      {},
      { action: 'webhook_endpoint.secret_rotated', changes: [{ field: 'secret' }] },
      { action: 'webhook_endpoint.secret_rotated' },
    ]);
  });

  test('keeps the former secret for a day, unless told otherwise', async () => {
    const { id } = await create();
    const { body } = await asAdmin('POST', `${PATH}/${id}/rotate-secret`);
    const left = Date.parse(body.previousSecretUntil) - Date.now();
    expect(Math.round(left / 60_000)).toBe(1_440);
    await api.admin`update webhook_endpoints set previous_until = now() where id = ${id}`;
    expect((await asAdmin('GET', `${PATH}/${id}`)).body.previousSecretUntil).toBeNull();
  });
});

describe('deleting an endpoint', () => {
  test('removes what was secret about it and the calls that somebody waits for, however much is still to be delivered', async () => {
    const { id } = await create({
      headers: { Authorization: TOKEN },
      clientCertificate: { certificate: pem('client.pem'), key: pem('client.key') },
    });
    const { id: other } = await create();
    for (const endpoint of [id, other]) {
      await api.admin`
        insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
        values (${endpoint}, ${tenant.id}, 1, 100, '2099-01-05', now()), (${endpoint}, ${tenant.id}, 7, 7, '2099-01-05', now())`;
      await api.admin`insert into endpoint_tests (endpoint_id, tenant_id) values (${endpoint}, ${tenant.id})`;
    }
    await asAdmin('POST', `${PATH}/${id}/rotate-secret`);
    expect((await asAdmin('DELETE', `${PATH}/${id}`)).status).toBe(204);
    expect(await rowOf(id)).toMatchObject({
      secret: '',
      previous_secret: null,
      client_certificate: null,
      headers: {},
      deleted_at: expect.any(Date),
    });
    const tests =
      await api.admin`select endpoint_id from endpoint_tests where endpoint_id in (${id}, ${other})`;
    expect(tests.map(({ endpoint_id }) => endpoint_id)).toEqual([other]);
    // Workers delete these rows later, in small batches.
    const due = await api.admin`select from due_deliveries where endpoint_id = ${id}`;
    expect(due).toHaveLength(2);
    for (const [method, url] of [
      ['GET', ''],
      ['GET', '/deliveries'],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/pause'],
      ['POST', '/rotate-secret'],
    ] as const) {
      const body = method === 'PATCH' ? { ordered: true } : undefined;
      expect((await asAdmin(method, `${PATH}/${id}${url}`, body)).status).toBe(404);
    }
    expect((await auditOf(id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.deleted' });
  });
});

test('notices say what has changed, so that workers drop only a secret that may be another one', async () => {
  const own = await api.tenant(limits(1));
  const { id } = await createFor(own);
  const changed = async (method: string, path: string, body?: unknown): Promise<unknown[]> => {
    const before = api.notices.length;
    const { status } = await api.callAs('admin', own, method, `${PATH}/${id}${path}`, body);
    expect(status).toBeLessThan(300);
    const told: Record<string, unknown>[] = api.notices
      .slice(before)
      .map(({ kind, notice }) => ({ kind, ...notice }));
    expect(told).toMatchObject([{ kind: 'endpoint', tenantId: own.id, id }]);
    return told.map((notice) => notice['changed']);
  };
  const said = [
    await changed('PATCH', '', { description: 'x', ordered: true }),
    await changed('POST', '/pause'),
    await changed('POST', '/resume'),
    await changed('POST', '/recover', { since: '2026-01-01T00:00:00Z' }),
    await changed('PATCH', '', { url: 'https://shop.example.com/other' }),
    await changed('PATCH', '', { headers: { 'x-shop': 'one' } }),
    await changed('PATCH', '', { clientCertificate: null }),
    await changed('POST', '/rotate-secret', {}),
    await changed('DELETE', ''),
  ].flat();
  const asks = [
    ...Array.from({ length: 3 }, () => 'settings'),
    'due',
    ...Array.from({ length: 5 }, () => 'secrets'),
  ];
  expect(said).toEqual(asks);
});

describe("another tenant's endpoint", () => {
  test('is not found, and stays as it is', async () => {
    const { id } = await create();
    const before = await rowOf(id);
    const stranger = await api.tenant(limits(5));
    for (const [method, url, body] of [
      ['GET', '', undefined],
      ['PATCH', '', { ordered: true }],
      ['DELETE', '', undefined],
      ['POST', '/pause', undefined],
      ['POST', '/resume', undefined],
      ['POST', '/rotate-secret', {}],
    ] as const) {
      const reply = await api.callAs('owner', stranger, method, `${PATH}/${id}${url}`, body);
      expect([method, url, reply.status]).toEqual([method, url, 404]);
    }
    expect(await rowOf(id)).toEqual(before);
  });
});

describe('the keys of v1a', () => {
  const jwks = async (of: TestTenant) => {
    const reply = await api.call('GET', `/v1/webhook-keys/${of.id}/jwks.json`);
    expect([reply.status, reply.headers['cache-control']]).toEqual([200, 'public, max-age=60']);
    return reply.body.keys as Record<string, string>[];
  };

  test('are made with the first endpoint that asks for them, once, and shown to everybody', async () => {
    const own = await api.tenant(limits(10));
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

  test('are changed for a new one, and the former one is shown on', async () => {
    const own = await api.tenant(limits(10));
    const { id } = await createFor(own);
    await api.callAs('admin', own, 'PATCH', `${PATH}/${id}`, { signatures: ['v1a'] });
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

  test('are shown for as long as what they signed may be checked, and then forgotten', async () => {
    const own = await api.tenant(limits(20));
    const { id } = await createFor(own);
    await api.callAs('admin', own, 'PATCH', `${PATH}/${id}`, { signatures: ['v1a'] });
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

  test('are shown for longer than anybody remembers the others before they sign', async () => {
    const own = await api.tenant(limits(20));
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

  test('of a tenant that is none are none', async () => {
    const { status, body } = await api.call('GET', `/v1/webhook-keys/${randomUUID()}/jwks.json`);
    expect([status, body]).toEqual([200, { keys: [] }]);
    expect((await api.call('GET', '/v1/webhook-keys/x/jwks.json')).status).toBe(404);
  });
});

const DAY = '2099-01-05';
type Call = { attempt: number; succeeded?: boolean; status?: number | null; error?: string | null };

describe('deliveries', () => {
  /** Creates a tenant with one message for each number of an endpoint's feed, and no attempt for any of them. */
  async function told(count: number): Promise<{
    own: TestTenant;
    id: string;
    messages: { id: string; seq: number }[];
    call: (method: string, url: string, body?: unknown) => Promise<Reply>;
  }> {
    const own = await api.tenant(limits(5));
    const { id } = await createFor(own);
    const messages = await api.admin<{ id: string; seq: number }[]>`
      insert into messages (seq, id, tenant_id, channel, recipient, category, priority, enqueued_at, purge_on, test,
        delivery_guarantee, content_retention)
      select nextval('message_blocks') * 1024 + 1, gen_random_uuid(), ${own.id}, 'sms', '+15550000001', 'transactional', 1,
        now() - make_interval(mins => ${count}::integer - n), ${DAY}, false, 'default', 'default'
      from generate_series(1, ${count}::integer) n returning id, seq`;
    for (const [index, { seq }] of messages.entries()) {
      await api.admin`
        insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
        values (${index + 1}, ${index + 1}, ${index + 1}, now() - make_interval(mins => ${count - index - 1}), ${id}, ${own.id}, ${DAY},
          ${[seq]}, '{0}')`;
      await api.admin`
        insert into feed (first_seq, last_seq, numbered_at, tenant_id, purge_on, seqs, numbers)
        values (${index + 1}, ${index + 1}, now(), ${own.id}, ${DAY}, ${[seq]}, '{0}')`;
    }
    return { own, id, messages: [...messages], call: (...args) => api.callAs('admin', own, ...args) };
  }

  const called = async ({ own, id }: { own: TestTenant; id: string }, seq: number, ...calls: Call[]) => {
    for (const { attempt, succeeded = false, status = 500, error = null } of calls) {
      await api.admin`
        insert into delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, status, error, answer, succeeded)
        values (${id}, ${seq}, ${attempt}, ${DAY}, ${own.id}, now(), ${attempt * 10}, ${status}, ${error},
          ${status === null ? null : `answer ${attempt}`}, ${succeeded})`;
    }
  };
  const due = (
    { own, id }: { own: TestTenant; id: string },
    first: number,
    { last = first, attempts = 0, dueAt = 'now', claim = null }: DueOptions = {},
  ) => api.admin`
    insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, due_at, claim)
    values (${id}, ${own.id}, ${first}, ${last}, ${DAY}, ${attempts}, ${dueAt}::text::timestamptz, ${claim})`;
  type DueOptions = { last?: number; attempts?: number; dueAt?: string; claim?: number | null };
  const dueOf = (id: string) => api.admin<DueRow[]>`
    select first_seq::integer as seq, last_seq::integer as last, attempts, manual, due_at <= clock_timestamp() as now, claim
    from due_deliveries where endpoint_id = ${id} order by first_seq, id`;
  type DueRow = {
    seq: number;
    last: number;
    attempts: number;
    manual: boolean;
    now: boolean;
    claim: number | null;
  };
  const later = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
  const seqsOf = ({ body }: Reply) => body.items.map(({ seq }: { seq: number }) => seq);

  test('are listed newest first, each with its state and its last call', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 }, { attempt: 2, status: 204, succeeded: true });
    await called(to, 2, { attempt: 1, status: null, error: 'timeout' });
    await called(to, 3, { attempt: 1 });
    await due(to, 3, { attempts: 1, dueAt: later(5) });
    await due(to, 4, { last: 5, dueAt: later(1), claim: 7 });
    await due(to, 6);
    const listed = await to.call('GET', `${PATH}/${to.id}/deliveries`);
    expect(listed.status).toBe(200);
    const items = listed.body.items as Record<string, unknown>[];
    expect(items.map(({ seq, status, attempts }) => [seq, status, attempts])).toEqual([
      [6, 'pending', 0],
      [5, 'in_flight', 0],
      [4, 'in_flight', 0],
      [3, 'retrying', 1],
      [2, 'exhausted', 1],
      [1, 'succeeded', 2],
    ]);
    expect(items[5]).toEqual({
      id: expect.any(String),
      endpointId: to.id,
      eventId: expect.any(String),
      eventType: 'message.queued',
      seq: 1,
      status: 'succeeded',
      attempts: 2,
      nextAttemptAt: null,
      lastAttemptAt: expect.any(String),
      durationMs: 20,
      responseStatus: 204,
      error: null,
      responseBody: 'answer 2',
    });
    expect(items[4]).toMatchObject({ responseStatus: null, error: 'timeout', responseBody: null });
    expect(Date.parse(items[3]?.['nextAttemptAt'] as string)).toBeGreaterThan(Date.now() + 200_000);
    expect(items[1]).toMatchObject({ nextAttemptAt: null, lastAttemptAt: null, durationMs: null });
    const events = await to.call('GET', '/v1/admin/events');
    expect(items.map(({ eventId }) => eventId).toReversed()).toEqual(
      events.body.items.map((event: { id: string }) => event.id),
    );
    expect((await to.call('GET', `${PATH}/${to.id}`)).body).toMatchObject({ lastSeq: 6, pending: 4 });

    await to.call('POST', `${PATH}/${to.id}/pause`);
    const paused = await to.call('GET', `${PATH}/${to.id}/deliveries?status=retrying`);
    expect(paused.body.items).toMatchObject([{ seq: 3, nextAttemptAt: null }]);
  });

  test('that are purged are left out without a page for each stretch of them', async () => {
    const to = await told(4);
    /** Reads all pages. A page may be short when its read reaches the time limit, but it reads at least one stretch. */
    const all = async (query: string) => {
      const seen: { id: string; seq: number }[] = [];
      let pages = 0;
      for (let cursor = ''; pages === 0 || cursor !== ''; pages += 1) {
        const { body } = await to.call('GET', `${PATH}/${to.id}/deliveries?${query}${cursor}`);
        seen.push(...body.items);
        cursor = body.nextCursor === null ? '' : `&cursor=${body.nextCursor}`;
      }
      expect(pages).toBeLessThan(10);
      return seen;
    };
    const seqs = async (query = 'limit=50') => (await all(query)).map(({ seq }) => seq);
    // Leaves a large gap below the newest number, as after a plan with a shorter retention purged the rows between.
    await api.admin`
      update endpoint_feed set first_seq = 1000000, last_seq = 1000000 where endpoint_id = ${to.id} and last_seq = 4`;
    expect(await seqs()).toEqual([1_000_000, 3, 2, 1]);
    expect(await seqs('limit=1&status=exhausted')).toEqual([1_000_000, 3, 2, 1]);
    const [delivery] = await all('limit=1');
    await api.admin`delete from endpoint_feed where endpoint_id = ${to.id} and last_seq >= 3`;
    await api.admin`update webhook_endpoints set purged_to = 1000000 where id = ${to.id}`;
    expect(await seqs()).toEqual([2, 1]);
    expect((await to.call('GET', `/v1/admin/deliveries/${delivery?.id}`)).status).toBe(404);
  });

  test('are filtered by state, type and time, and paged by cursors of their own filter', async () => {
    const to = await told(7);
    for (const seq of [1, 3, 5]) await called(to, seq, { attempt: 1 });
    for (const seq of [2, 4, 6]) await called(to, seq, { attempt: 1, succeeded: true, status: 200 });
    await due(to, 7);
    const list = (query: string) => to.call('GET', `${PATH}/${to.id}/deliveries?${query}`);
    expect(seqsOf(await list('status=exhausted'))).toEqual([5, 3, 1]);
    expect(seqsOf(await list('status=in_flight'))).toEqual([]);
    expect(seqsOf(await list('type=message.*'))).toEqual([7, 6, 5, 4, 3, 2, 1]);
    expect(seqsOf(await list('type=provider.*'))).toEqual([]);
    const since = new Date(Date.now() - 2.5 * 60_000).toISOString();
    expect(seqsOf(await list(`since=${since}`))).toEqual([7, 6, 5]);
    expect(seqsOf(await list(`since=${later(5)}`))).toEqual([]);
    expect(seqsOf(await list(`until=${since}`))).toEqual([4, 3, 2, 1]);
    expect(seqsOf(await list(`until=${since}&status=exhausted`))).toEqual([3, 1]);
    for (const [query, wanted] of [
      ['limit=3', [7, 6, 5, 4, 3, 2, 1]],
      ['limit=2&status=exhausted', [5, 3, 1]],
      [`limit=2&since=${since}`, [7, 6, 5]],
      [`limit=2&until=${since}`, [4, 3, 2, 1]],
    ] as const) {
      const seen: number[] = [];
      let cursor = '';
      do {
        const page = await list(`${query}${cursor}`);
        seen.push(...seqsOf(page));
        cursor = page.body.nextCursor === null ? '' : `&cursor=${page.body.nextCursor}`;
      } while (cursor !== '');
      expect(seen).toEqual(wanted);
    }
    const { nextCursor } = (await list('limit=2')).body;
    expect((await list(`limit=2&status=pending&cursor=${nextCursor}`)).body.code).toBe('invalid_cursor');
    expect((await list('status=lost')).status).toBe(400);
  });

  test('of events that are gone are not shown', async () => {
    const to = await told(3);
    await api.admin`delete from messages where id = ${to.messages[1]?.id ?? ''}`;
    expect(seqsOf(await to.call('GET', `${PATH}/${to.id}/deliveries`))).toEqual([3, 1]);
    expect(seqsOf(await to.call('GET', `${PATH}/${to.id}/deliveries?limit=1&status=exhausted`))).toEqual([3]);
  });

  test('are shown one by one with each call, to their own tenant', async () => {
    const to = await told(2);
    await called(
      to,
      2,
      { attempt: 1, status: null, error: 'tls' },
      { attempt: 2 },
      { attempt: 3, succeeded: true },
    );
    const [delivery] = (await to.call('GET', `${PATH}/${to.id}/deliveries`)).body.items;
    const { status, body } = await to.call('GET', `/v1/admin/deliveries/${delivery.id.toUpperCase()}`);
    expect(status).toBe(200);
    const { attemptLog, ...rest } = body;
    expect(rest).toEqual(delivery);
    expect(attemptLog).toMatchObject([
      { number: 1, durationMs: 10, responseStatus: null, error: 'tls', responseBody: null },
      { number: 2, durationMs: 20, responseStatus: 500, error: null, responseBody: 'answer 2' },
      { number: 3, durationMs: 30, responseStatus: 500, responseBody: 'answer 3' },
    ]);
    for (const [of, id] of [
      [tenant, delivery.id],
      [to.own, randomUUID()],
      [to.own, to.id],
    ] as const) {
      expect((await api.callAs('owner', of, 'GET', `/v1/admin/deliveries/${id}`)).status).toBe(404);
      expect((await api.callAs('owner', of, 'POST', `/v1/admin/deliveries/${id}/redeliver`)).status).toBe(
        404,
      );
    }
    await to.call('DELETE', `${PATH}/${to.id}`);
    expect((await to.call('GET', `/v1/admin/deliveries/${delivery.id}`)).status).toBe(404);
  });

  test('are made again once, sooner where they wait already, and not while they are made', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 }, { attempt: 2, succeeded: true });
    await called(to, 2, { attempt: 1 });
    await called(to, 3, { attempt: 1 });
    await due(to, 3, { attempts: 1, dueAt: later(60) });
    await due(to, 4, { last: 5 });
    await due(to, 6, { dueAt: later(1), claim: 9 });
    const { items } = (await to.call('GET', `${PATH}/${to.id}/deliveries`)).body;
    const idOf = (seq: number): string => items.find((one: { seq: number }) => one.seq === seq).id;
    const again = (seq: number) => to.call('POST', `/v1/admin/deliveries/${idOf(seq)}/redeliver`);
    const first = await again(1);
    expect([first.status, first.body]).toMatchObject([202, { seq: 1, status: 'pending', attempts: 2 }]);
    // The first delivery had succeeded before; this one never has.
    expect((await again(2)).body).toMatchObject({ seq: 2, status: 'retrying', attempts: 1 });
    await Promise.all([again(1), again(1), again(2), again(2)]);
    expect(await again(3)).toMatchObject({ status: 202 });
    expect(await again(5)).toMatchObject({ status: 202, body: { status: 'pending' } });
    expect(details(await again(6))).toEqual([409, 'invalid_state']);
    expect(await dueOf(to.id)).toEqual([
      { seq: 1, last: 1, attempts: 2, manual: true, now: true, claim: null },
      { seq: 2, last: 2, attempts: 1, manual: true, now: true, claim: null },
      { seq: 3, last: 3, attempts: 1, manual: false, now: true, claim: null },
      { seq: 4, last: 5, attempts: 0, manual: false, now: true, claim: null },
      { seq: 6, last: 6, attempts: 0, manual: false, now: false, claim: 9 },
    ]);
    expect(api.notices).toContainEqual({
      kind: 'endpoint',
      notice: { tenantId: to.own.id, id: to.id, changed: 'due' },
    });
    expect((await auditOf(to.id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.redelivered' });
  });

  test('are made 1,000 times at most', async () => {
    const to = await told(2);
    await called(to, 1, { attempt: 999 }, { attempt: 1_000 });
    await called(to, 2, { attempt: 999 });
    const { items } = (await to.call('GET', `${PATH}/${to.id}/deliveries`)).body;
    const again = (seq: number) =>
      to.call(
        'POST',
        `/v1/admin/deliveries/${items.find((one: { seq: number }) => one.seq === seq).id}/redeliver`,
      );
    expect(details(await again(1))).toEqual([409, 'invalid_state']);
    const recovered = await to.call('POST', `${PATH}/${to.id}/recover`, { since: '2026-01-01T00:00:00Z' });
    expect(recovered.body).toMatchObject({ recovered: 1 });
    expect((await dueOf(to.id)).map(({ seq }) => seq)).toEqual([2]);
  });

  test('are not made twice where a worker puts one back at the same moment', async () => {
    const to = await told(1);
    await called(to, 1, { attempt: 1 });
    await due(to, 1, { attempts: 1, dueAt: later(60) });
    const [delivery] = (await to.call('GET', `${PATH}/${to.id}/deliveries`)).body.items;
    let again: Promise<Reply> | undefined;
    await api.admin.begin(async (tx) => {
      // Replaces the row, as a worker does when it records an outcome.
      await tx`delete from due_deliveries where endpoint_id = ${to.id}`;
      await tx`insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, due_at)
        values (${to.id}, ${to.own.id}, 1, 1, ${DAY}, 2, now() + interval '5 minutes')`;
      again = to.call('POST', `/v1/admin/deliveries/${delivery.id}/redeliver`);
      await new Promise((resolve) => setTimeout(resolve, 300));
    });
    expect((await again)?.status).toBe(202);
    expect(await dueOf(to.id)).toMatchObject([{ seq: 1, attempts: 2, manual: false, now: true }]);
  });

  test('that were to be tried again later are made at once where a person resumes the endpoint', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 });
    await due(to, 1, { attempts: 1, dueAt: later(300) });
    await due(to, 2, { dueAt: later(1), claim: 9 });
    await due(to, 3, { dueAt: 'infinity' });
    await due(to, 4, { last: 6 });
    const move = (name: string) => to.call('POST', `${PATH}/${to.id}/${name}`);
    await move('pause');
    const waiting = await dueOf(to.id);
    expect(waiting.map(({ now }) => now)).toEqual([false, false, false, true]);
    expect((await move('resume')).body).toMatchObject({ status: 'active', pending: 6 });
    const [first, ...others] = await dueOf(to.id);
    expect(first).toEqual({ ...waiting[0], now: true });
    expect(others).toEqual(waiting.slice(1));
  });

  test('that were missed are recovered, once each, also of an endpoint that is paused', async () => {
    const to = await told(8);
    for (const seq of [1, 2, 3, 6]) await called(to, seq, { attempt: 1 }, { attempt: 2 });
    await called(to, 4, { attempt: 1 }, { attempt: 2, succeeded: true });
    await due(to, 5);
    await due(to, 7, { last: 8, dueAt: later(1), claim: 3 });
    await to.call('POST', `${PATH}/${to.id}/pause`);
    const recover = (body: object) => to.call('POST', `${PATH}/${to.id}/recover`, body);
    const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
    const part = await recover({ since: minutesAgo(6.5), until: minutesAgo(5.5) });
    expect([part.status, part.body]).toEqual([202, { recovered: 1, more: false, nextSince: null }]);
    expect((await dueOf(to.id)).map(({ seq }) => seq)).toEqual([2, 5, 7]);
    const rest = await recover({ since: minutesAgo(60) });
    expect(rest.body).toEqual({ recovered: 3, more: false, nextSince: null });
    const found = await dueOf(to.id);
    expect(found.map(({ seq }) => seq)).toEqual([1, 2, 3, 5, 6, 7]);
    expect(found[0]).toEqual({ seq: 1, last: 1, attempts: 2, manual: true, now: true, claim: null });
    expect((await recover({ since: minutesAgo(60) })).body.recovered).toBe(0);
    expect((await recover({ since: later(5) })).body.recovered).toBe(0);
    expect(details(await recover({ since: later(5), until: later(4) }))).toEqual([
      400,
      'validation_failed',
      'until: min',
    ]);
    expect(details(await recover({}))).toEqual([400, 'missing_field', 'since: required']);
  });

  test('are recovered ten thousand at a time', async () => {
    const to = await told(1);
    await api.admin`
      insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      select n * 500 + 2, n * 500 + 501, n + 2, now() + make_interval(secs => n), ${to.id}, ${to.own.id}, ${DAY},
        array_fill(1, array[500]), array_fill(0, array[500]) from generate_series(0, 23) n`;
    const since = new Date(Date.now() - 600_000).toISOString();
    const recover = async (from: string) =>
      (await to.call('POST', `${PATH}/${to.id}/recover`, { since: from })).body;
    const first = await recover(since);
    expect(first).toMatchObject({ recovered: 10_000, more: true });
    expect(await recover(first.nextSince)).toEqual({ recovered: 2_001, more: false, nextSince: null });
    expect((await dueOf(to.id)).length).toBe(12_001);
  });
});

describe('trying an endpoint out', () => {
  const RESULT = {
    succeeded: false,
    request: { headers: { 'webhook-id': 'x' }, body: '{}' },
    response: { status: 500, headers: { 'content-type': 'text/plain' }, body: 'oh no' },
    error: null,
    durationMs: 12,
  };
  const rowsOf = (id: string) =>
    api.admin<{ id: string }[]>`select id from endpoint_tests where endpoint_id = ${id}`;
  async function asked(id: string): Promise<string> {
    for (;;) {
      const [row] = await rowsOf(id);
      if (row !== undefined) return row.id;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test('asks a worker for a call, and answers with what came of it', async () => {
    const { id } = await create();
    const before = api.notices.length;
    const answer = asAdmin('POST', `${PATH}/${id}/test`);
    const test = await asked(id);
    await api.admin`update endpoint_tests set result = ${api.admin.json(RESULT)} where id = ${test}`;
    const { status, body } = await answer;
    expect([status, body]).toEqual([200, RESULT]);
    expect(api.notices.slice(before)).toContainEqual({
      kind: 'endpoint',
      notice: { tenantId: tenant.id, id, changed: 'test' },
    });
    expect(await rowsOf(id)).toEqual([]);
    expect((await auditOf(id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.tested' });
  });

  test('is refused while five are waited for', async () => {
    const { id } = await create();
    await api.admin`
      insert into endpoint_tests (endpoint_id, tenant_id) select ${id}, ${tenant.id} from generate_series(1, 5)`;
    expect(details(await asAdmin('POST', `${PATH}/${id}/test`))).toEqual([409, 'invalid_state']);
    expect((await api.callAs('developer', tenant, 'POST', `${PATH}/${id}/test`)).status).toBe(403);
    expect((await asAdmin('POST', `${PATH}/${randomUUID()}/test`)).status).toBe(404);
  });

  test('is given up after twenty seconds without a worker', async () => {
    const { id } = await create();
    const began = performance.now();
    const { status, body, headers } = await asAdmin('POST', `${PATH}/${id}/test`);
    expect([status, body.code, headers['retry-after']]).toEqual([503, 'dependency_unavailable', '5']);
    expect(performance.now() - began).toBeGreaterThan(19_000);
    expect(await rowsOf(id)).toEqual([]);
  });

  test('ends with the client that asked', async () => {
    const { id } = await create();
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = api.app.server.address() as { port: number };
    const going = new AbortController();
    const call = fetch(`http://127.0.0.1:${port}${PATH}/${id}/test`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tenant.members.admin.token}`, 'x-tenant-slug': tenant.slug },
      signal: going.signal,
    });
    await asked(id);
    going.abort();
    await expect(call).rejects.toThrow('aborted');
    // Earlier than the api gives up the call.
    await expect.poll(() => rowsOf(id), { timeout: 15_000 }).toEqual([]);
  });
});
