import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { webhookCertificateBinding } from '#core/domain/storage/binding.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import type { Reply } from '#test/support/api.ts';
import { makeCertificates } from '#test/support/certificates.ts';
import {
  ENDPOINTS_PATH,
  LEAST_ENDPOINT,
  ENDPOINT_SECRET,
  endpointLimits,
  faultsOf,
  startWebhookApi,
  type WebhookApi,
} from '#test/support/webhook-api.ts';

const TOKEN = 'Bearer a-token-that-ends-in-4f2a';
const folder = mkdtempSync(join(tmpdir(), 'despatch-certificates-'));
const pem = (name: string): string => readFileSync(join(folder, name), 'utf8');

let hooks: WebhookApi;
let api: WebhookApi['api'];
let tenant: WebhookApi['tenant'];
let asAdmin: WebhookApi['asAdmin'];
let createFor: WebhookApi['createFor'];
let create: WebhookApi['create'];
let rowOf: WebhookApi['rowOf'];
let open: WebhookApi['open'];
let secretIn: WebhookApi['secretIn'];
let auditOf: WebhookApi['auditOf'];

beforeAll(async () => {
  hooks = await startWebhookApi();
  ({ api, tenant, asAdmin, createFor, create, rowOf, open, secretIn, auditOf } = hooks);
  makeCertificates(folder);
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await hooks[Symbol.asyncDispose]();
});

describe('creating an endpoint', () => {
  test('answers 201 with the secret, which is shown only once and stored encrypted', async () => {
    const { status, body } = await asAdmin('POST', ENDPOINTS_PATH, LEAST_ENDPOINT);
    expect(status).toBe(201);
    const { secret, ...endpoint } = body;
    expect(secret).toMatch(ENDPOINT_SECRET);
    expect(endpoint).toEqual({
      ...LEAST_ENDPOINT,
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
    const shown = [
      await asAdmin('GET', `${ENDPOINTS_PATH}/${body.id}`),
      await asAdmin('GET', ENDPOINTS_PATH),
    ];
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

  test('accepts every setting in both spellings, and removes duplicates from lists', async () => {
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
    const { text } = await asAdmin('GET', `${ENDPOINTS_PATH}/${body.id}`);
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
    const reply = await asAdmin('POST', ENDPOINTS_PATH, { ...LEAST_ENDPOINT, ...change });
    expect(faultsOf(reply)).toEqual([400, code, fault]);
  });

  test('reports all errors at once, and suggests names for unknown fields', async () => {
    const reply = await asAdmin('POST', ENDPOINTS_PATH, {
      ...LEAST_ENDPOINT,
      eventTypes: ['nope'],
      headers: { host: 'x', 'x-a': '' },
      tags: [''],
    });
    expect(faultsOf(reply)).toEqual([
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
    ['a key of another certificate', { certificate: 'client.pem', key: 'server.key' }, 'key: match'],
    ['a certificate instead of the key', { certificate: 'client.pem', key: 'client.pem' }, 'key: pem'],
    [
      'a key instead of the certificate',
      { certificate: 'client.key', key: 'client.key' },
      'certificate: pem',
    ],
  ])('refuses %s', async (_, files, fault) => {
    const clientCertificate = { certificate: pem(files.certificate), key: pem(files.key) };
    const reply = await asAdmin('POST', ENDPOINTS_PATH, { ...LEAST_ENDPOINT, clientCertificate });
    expect(faultsOf(reply)).toEqual([400, 'validation_failed', `clientCertificate.${fault}`]);
  });

  test('a replay returns the same secret, which is stored only in encrypted form', async () => {
    const first = await asAdmin('POST', ENDPOINTS_PATH, LEAST_ENDPOINT, 'endpoint-once');
    const again = await asAdmin('POST', ENDPOINTS_PATH, {
      ...LEAST_ENDPOINT,
      idempotency_key: 'endpoint-once',
    });
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(again.body).toEqual(first.body);
    const [stored] = await api.admin<{ found: boolean }[]>`
      select bool_or(t::text like ${`%${first.body.secret.slice(6, 40)}%`}) as found from idempotency_keys t`;
    expect(stored?.found).toBe(false);
    const other = await asAdmin(
      'POST',
      ENDPOINTS_PATH,
      { ...LEAST_ENDPOINT, ordered: true },
      'endpoint-once',
    );
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_mismatch']);
  });

  test('stops exactly at the plan limit; deleted endpoints do not count', async () => {
    const own = await api.tenant(endpointLimits(2));
    const make = () => api.callAs('admin', own, 'POST', ENDPOINTS_PATH, LEAST_ENDPOINT);
    const replies = await Promise.all(Array.from({ length: 4 }, make));
    expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 201, 403, 403]);
    const refused = replies.find(({ status }) => status === 403);
    expect([refused?.body.code, refused?.body.limit]).toEqual([
      'plan_limit_reached',
      { name: 'webhookEndpointsMax', value: 2 },
    ]);
    const made = replies.find(({ status }) => status === 201);
    expect((await api.callAs('admin', own, 'DELETE', `${ENDPOINTS_PATH}/${made?.body.id}`)).status).toBe(204);
    expect([(await make()).status, (await make()).status]).toEqual([201, 403]);
  });

  test("starts its feed after the newest event of the tenant's feed", async () => {
    const own = await api.tenant(endpointLimits(5));
    await api.admin`insert into feed_heads (tenant_id, last_seq, numbered_at) values (${own.id}, 42, now())`;
    const { id } = await createFor(own);
    expect((await rowOf(id))['matched_to']).toBe(42);
  });
});

describe('reading endpoints', () => {
  test('pages newest first for viewers, filters by status, and binds cursors to the tenant', async () => {
    const own = await api.tenant(endpointLimits(10));
    const ids: string[] = [];
    for (let n = 0; n < 3; n += 1) ids.unshift((await createFor(own)).id);
    await api.callAs('admin', own, 'POST', `${ENDPOINTS_PATH}/${ids[1]}/pause`);
    const page = async (query: string) =>
      (await api.callAs('viewer', own, 'GET', `${ENDPOINTS_PATH}?${query}`)).body;
    const idsOf = (body: Reply['body']) => body.items.map(({ id }: { id: string }) => id);
    const first = await page('limit=2');
    expect(idsOf(first)).toEqual(ids.slice(0, 2));
    expect(idsOf(await page(`limit=2&cursor=${first.nextCursor}`))).toEqual(ids.slice(2));
    expect(idsOf(await page('status=paused'))).toEqual([ids[1]]);
    const foreign = await api.callAs('viewer', tenant, 'GET', `${ENDPOINTS_PATH}?cursor=${first.nextCursor}`);
    expect([foreign.status, foreign.body.code]).toEqual([400, 'invalid_cursor']);
  });

  test('shows the query values of the URL to admins and owners only', async () => {
    const url = 'https://shop.example.com/hooks?token=s3cret';
    const { id } = await create({ url });
    const one = async (role: Role) =>
      (await api.callAs(role, tenant, 'GET', `${ENDPOINTS_PATH}/${id}`)).body.url;
    const listed = async (role: Role) =>
      (await api.callAs(role, tenant, 'GET', `${ENDPOINTS_PATH}?limit=1`)).body.items[0].url;
    for (const role of ['owner', 'admin'] as const)
      expect([await one(role), await listed(role)]).toEqual([url, url]);
    const shown = 'https://shop.example.com/hooks?token=…';
    for (const role of ['developer', 'viewer'] as const)
      expect([await one(role), await listed(role)]).toEqual([shown, shown]);
  });

  test('shows the last sequence number and the number of pending deliveries, up to 1,000', async () => {
    const { id } = await create();
    await api.admin`
      insert into endpoint_heads (endpoint_id, feed_seq, last_seq, tenant_id)
      select ${id}, n, 3, ${tenant.id} from generate_series(8, 9) n`;
    const due = (n: number) => api.admin`
      insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      select ${id}, ${tenant.id}, 100 * x, 100 * x + 99, '2099-01-05', now() from generate_series(1, ${n}::integer) x`;
    await due(2);
    expect((await asAdmin('GET', `${ENDPOINTS_PATH}/${id}`)).body).toMatchObject({
      lastSeq: 3,
      pending: 200,
    });
    await due(20);
    expect((await asAdmin('GET', `${ENDPOINTS_PATH}/${id}`)).body).toMatchObject({ pending: 1_000 });
  });
});

describe('changing an endpoint', () => {
  test('changes only the fields sent; null resets a field', async () => {
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
    const changed = await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, { ordered: true, eventTypes: ['*'] });
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
    const cleared = await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, nulls);
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

  test('makes an endpoint ordered again only when no event waits from when it was', async () => {
    const { id } = await create();
    await api.admin`
      insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, message_seq, due_at)
      select id, tenant_id, 1, 1, current_date + 30, 1, 'infinity' from webhook_endpoints where id = ${id}`;
    const order = () => asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, { ordered: true });
    const refused = await order();
    expect([refused.status, refused.body.code]).toEqual([409, 'invalid_state']);
    await api.admin`update due_deliveries set due_at = now() where endpoint_id = ${id}`;
    expect((await order()).status).toBe(200);
  });

  test('with an empty body answers 200 and writes no audit entry', async () => {
    const { id } = await create();
    expect((await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, {})).status).toBe(200);
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
    expect(faultsOf(await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, change))).toEqual([400, code, fault]);
  });

  test('to another server requires headers with a secret to be sent again', async () => {
    const { id } = await create({ headers: { Authorization: TOKEN } });
    const url = 'https://elsewhere.example.com/hooks';
    expect(faultsOf(await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, { url }))).toEqual([
      400,
      'missing_field',
      'headers: required',
    ]);
    const sameServer = await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, {
      url: 'https://shop.example.com/other',
    });
    expect(sameServer.status).toBe(200);
    const both = await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, {
      url,
      headers: { Authorization: `${TOKEN}!` },
    });
    expect([both.status, both.body.url]).toEqual([200, url]);
    const { id: plain } = await create({ headers: { 'X-Shop': 'one' } });
    expect((await asAdmin('PATCH', `${ENDPOINTS_PATH}/${plain}`, { url })).status).toBe(200);
  });

  test('ends the backoff of a failing endpoint if the change affects its calls', async () => {
    const { id } = await create();
    const fail = () => api.admin`
      update webhook_endpoints set status = 'failing', failures = 4, failing_since = now(), call_at = now() + interval '1 hour'
      where id = ${id}`;
    const isHeld = async () => {
      const [row] = await api.admin`select call_at > now() as held from webhook_endpoints where id = ${id}`;
      return row?.['held'] as boolean;
    };
    await fail();
    await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, { description: 'Still failing' });
    expect(await isHeld()).toBe(true);
    const { body } = await asAdmin('PATCH', `${ENDPOINTS_PATH}/${id}`, { headers: { 'X-New': 'one' } });
    expect(await isHeld()).toBe(false);
    expect(body).toMatchObject({ status: 'failing', failures: 4, failingSince: expect.any(String) });
  });
});

describe('pausing and resuming', () => {
  test('changes the status and is idempotent; resuming resets failures and backoff', async () => {
    const { id } = await create();
    const move = async (to: string) => (await asAdmin('POST', `${ENDPOINTS_PATH}/${id}/${to}`)).body;
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
  test('returns the new secret, and keeps the previous one for graceSeconds', async () => {
    const { id, secret } = await create();
    const url = `${ENDPOINTS_PATH}/${id}/rotate-secret`;
    const first = await asAdmin('POST', url, { graceSeconds: 60 }, 'rotate-once');
    expect(first.status).toBe(200);
    expect(first.body).toEqual({
      id,
      secret: expect.stringMatching(ENDPOINT_SECRET),
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
    const shown = await asAdmin('GET', `${ENDPOINTS_PATH}/${id}`);
    expect(shown.body).toMatchObject({ secretVersion: 3, previousSecretUntil: null });
    expect(await auditOf(id)).toMatchObject([
      {},
      { action: 'webhook_endpoint.secret_rotated', changes: [{ field: 'secret' }] },
      { action: 'webhook_endpoint.secret_rotated' },
    ]);
  });

  test('keeps the previous secret for a day by default', async () => {
    const { id } = await create();
    const { body } = await asAdmin('POST', `${ENDPOINTS_PATH}/${id}/rotate-secret`);
    const left = Date.parse(body.previousSecretUntil) - Date.now();
    expect(Math.round(left / 60_000)).toBe(1_440);
    await api.admin`update webhook_endpoints set previous_until = now() where id = ${id}`;
    expect((await asAdmin('GET', `${ENDPOINTS_PATH}/${id}`)).body.previousSecretUntil).toBeNull();
  });
});

describe('deleting an endpoint', () => {
  test('erases its secrets and pending test calls, and leaves due deliveries to the workers', async () => {
    const { id } = await create({
      url: 'https://hooks.example.com/despatch?token=secret',
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
    await asAdmin('POST', `${ENDPOINTS_PATH}/${id}/rotate-secret`);
    expect((await asAdmin('DELETE', `${ENDPOINTS_PATH}/${id}`)).status).toBe(204);
    expect(await rowOf(id)).toMatchObject({
      secret: '',
      previous_secret: null,
      client_certificate: null,
      headers: {},
      url: 'https://hooks.example.com/despatch',
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
      expect((await asAdmin(method, `${ENDPOINTS_PATH}/${id}${url}`, body)).status).toBe(404);
    }
    expect((await auditOf(id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.deleted' });
  });
});

test('endpoint notices name the kind of change, so that workers drop cached secrets only if they changed', async () => {
  const own = await api.tenant(endpointLimits(1));
  const { id } = await createFor(own);
  const changed = async (method: string, path: string, body?: unknown): Promise<unknown[]> => {
    const before = api.notices.length;
    const { status } = await api.callAs('admin', own, method, `${ENDPOINTS_PATH}/${id}${path}`, body);
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
  test('is 404 and stays unchanged', async () => {
    const { id } = await create();
    const before = await rowOf(id);
    const stranger = await api.tenant(endpointLimits(5));
    for (const [method, url, body] of [
      ['GET', '', undefined],
      ['PATCH', '', { ordered: true }],
      ['DELETE', '', undefined],
      ['POST', '/pause', undefined],
      ['POST', '/resume', undefined],
      ['POST', '/rotate-secret', {}],
    ] as const) {
      const reply = await api.callAs('owner', stranger, method, `${ENDPOINTS_PATH}/${id}${url}`, body);
      expect([method, url, reply.status]).toEqual([method, url, 404]);
    }
    expect(await rowOf(id)).toEqual(before);
  });
});
