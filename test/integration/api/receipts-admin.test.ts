import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { receiptKey, receiptToken } from '#core/domain/receipts/receipt-token.ts';
import { ROLES } from '#core/domain/tenant/role.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { RECEIPT_PEPPER, type Reply } from '#test/support/api.ts';

const PATH = '/v1/admin/providers';
const WEEK_MS = 604_800_000;
const key = receiptKey(RECEIPT_PEPPER);

let api: AdminApi;
let tenant: TestTenant;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant({ providersPerChannelMax: 1_000 });
});
afterAll(() => api[Symbol.asyncDispose]());

const twilio = () => ({
  provider: 'twilio',
  label: 'Main sms',
  publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15550000001' },
  secretConfig: { authToken: 'token0of0the0account' },
});
const asAdmin = (method: string, url: string, body?: unknown, idempotencyKey?: string): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body, idempotencyKey);
const created = async (body: unknown = twilio()): Promise<string> =>
  (await asAdmin('POST', PATH, body)).body.id;
const rotate = (id: string, body: unknown = {}): Promise<Reply> =>
  asAdmin('POST', `${PATH}/${id}/rotate-receipt-url`, body);
const urlOf = (id: string, version: number): string =>
  `http://localhost:8080/v1/receipts/${id}/${receiptToken(key, id, version)}`;
const report = async (url: string): Promise<number> => {
  const { pathname } = new URL(url);
  return (await api.app.inject({ method: 'POST', url: pathname, payload: 'MessageStatus=sent' })).statusCode;
};

describe('the receipt URL', () => {
  test('is in every answer that contains the account, and can be called', async () => {
    const made = await asAdmin('POST', PATH, twilio());
    const { id } = made.body;
    const changed = [
      made,
      await asAdmin('GET', `${PATH}/${id}`),
      await asAdmin('PATCH', `${PATH}/${id}`, { label: 'Other' }),
      await asAdmin('PATCH', `${PATH}/${id}`, {}),
      await asAdmin('POST', `${PATH}/${id}/verify`),
      await asAdmin('POST', `${PATH}/${id}/disable`),
      await asAdmin('POST', `${PATH}/${id}/enable`),
    ];
    expect(changed.map(({ body }) => body.receiptUrl)).toEqual(changed.map(() => urlOf(id, 1)));
    const { items } = (await asAdmin('GET', PATH)).body;
    expect(items.find((one: { id: string }) => one.id === id).receiptUrl).toBe(urlOf(id, 1));
    expect(await report(urlOf(id, 1))).toBe(200);
  });

  test('is shown to admins and owners alone', async () => {
    const id = await created();
    for (const role of ROLES) {
      const one = await api.callAs(role, tenant, 'GET', `${PATH}/${id}`);
      const list = await api.callAs(role, tenant, 'GET', `${PATH}?limit=200`);
      const isShown = role === 'admin' || role === 'owner';
      expect([role, one.body.receiptUrl]).toEqual([role, isShown ? urlOf(id, 1) : undefined]);
      expect([role, (one.text + list.text).includes('/v1/receipts/')]).toEqual([role, isShown]);
      expect(one.body.receiptSetup).toMatchObject({ mode: 'automatic' });
    }
  });

  test('is null if the provider sends no receipts', async () => {
    for (const provider of ['simulator-sms', 'simulator-email']) {
      const { body } = await asAdmin('POST', PATH, { provider, label: 'Simulated', secretConfig: {} });
      expect([body.receiptUrl, body.receiptSetup]).toEqual([null, { mode: 'none', steps: [] }]);
    }
  });

  test('is the same in a replay as in the first answer, and is not stored with the idempotency key', async () => {
    const idempotencyKey = randomUUID();
    const body = twilio();
    const first = await asAdmin('POST', PATH, body, idempotencyKey);
    await rotate(first.body.id);
    const replay = await asAdmin('POST', PATH, body, idempotencyKey);
    expect([first.status, replay.status, replay.headers['idempotent-replayed']]).toEqual([201, 201, 'true']);
    expect(replay.text).toBe(first.text);
    expect(first.body.receiptUrl).toBe(urlOf(first.body.id, 1));
    const [row] = await api.admin<{ text: string }[]>`
      select string_agg(response::text, '') as text from idempotency_keys`;
    expect(row?.text).toContain(first.body.id);
    expect(row?.text).not.toContain('receipts/');
  });
});

test('the last receipt and the last refused receipt are shown to every role that may read the account', async () => {
  const id = await created();
  const read = async () => (await api.callAs('viewer', tenant, 'GET', `${PATH}/${id}`)).body;
  expect(await read()).toMatchObject({ lastReceiptAt: null, lastRefusedReceipt: null });
  await api.admin`update provider_accounts set reported_at = '2026-01-02T03:04:05Z',
    receipt_refused_at = '2026-01-03T03:04:05Z', receipt_refused_reason = 'signature_mismatch' where id = ${id}`;
  expect(await read()).toMatchObject({
    lastReceiptAt: '2026-01-02T03:04:05.000Z',
    lastRefusedReceipt: { at: '2026-01-03T03:04:05.000Z', reason: 'signature_mismatch' },
  });
});

describe('rotating the receipt URL', () => {
  test('returns a new URL, and the previous one works for a week', async () => {
    const id = await created();
    const before = Date.now();
    const { status, body } = await rotate(id);
    expect([status, body.id, body.receiptUrl]).toEqual([200, id, urlOf(id, 2)]);
    const until = new Date(body.previousUntil).getTime();
    expect(Math.abs(until - before - WEEK_MS)).toBeLessThan(60_000);
    expect((await asAdmin('GET', `${PATH}/${id}`)).body.receiptUrl).toBe(urlOf(id, 2));
    expect([await report(urlOf(id, 1)), await report(urlOf(id, 2))]).toEqual([200, 200]);
  });

  test('without a grace period refuses the previous URL immediately', async () => {
    const id = await created();
    expect(await report(urlOf(id, 1))).toBe(200);
    const { body } = await rotate(id, { graceSeconds: 0 });
    expect(body.previousUntil).toBeNull();
    expect([await report(urlOf(id, 1)), await report(urlOf(id, 2))]).toEqual([404, 200]);
  });

  test('twice leaves one previous URL, which is refused after its grace period', async () => {
    const id = await created();
    await rotate(id);
    await rotate(id, { grace_seconds: 60 });
    expect([await report(urlOf(id, 1)), await report(urlOf(id, 2)), await report(urlOf(id, 3))]).toEqual([
      404, 200, 200,
    ]);
    await api.admin`update provider_accounts set receipt_grace_until = now() where id = ${id}`;
    await asAdmin('PATCH', `${PATH}/${id}`, { label: 'Told of' });
    expect([await report(urlOf(id, 2)), await report(urlOf(id, 3))]).toEqual([404, 200]);
  });

  test('is audited without the URL and announced to other processes', async () => {
    const id = await created();
    api.notices.length = 0;
    const { body } = await rotate(id, { graceSeconds: 60 });
    expect(api.notices).toContainEqual({ kind: 'account', notice: { tenantId: tenant.id, id } });
    const rows = await api.admin<{ action: string; details: object; changes: unknown; text: string }[]>`
      select action, details, changes, a::text as text from audit_log a where target = ${id} order by seq`;
    expect(rows.map(({ action }) => action)).toEqual(['provider.created', 'provider.receipt_url_rotated']);
    expect(rows[1]).toMatchObject({ changes: [{ field: 'receiptUrl' }] });
    const secret = new URL(body.receiptUrl).pathname.split('/').at(-1) as string;
    expect(
      [...rows.map(({ text }) => text), ...api.logLines].filter((text) => text.includes(secret)),
    ).toEqual([]);
  });

  test.each([-1, 604_801, 1.5, 'soon'])('with graceSeconds %j is refused', async (graceSeconds) => {
    const { status, body } = await rotate(await created(), { graceSeconds });
    expect([status, body.code, body.details[0].field]).toEqual([400, 'validation_failed', 'graceSeconds']);
  });

  test('happens once per idempotency key, and a replay returns the same URL', async () => {
    const id = await created();
    const once = () =>
      asAdmin('POST', `${PATH}/${id}/rotate-receipt-url`, { graceSeconds: 60 }, 'rotate-url-once');
    const [first, again] = [await once(), await once()];
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    expect(first.body.receiptUrl).toBe(urlOf(id, 2));
  });

  test('is 403 below admin, 404 for a foreign or deleted account, and 409 without a receipt URL', async () => {
    const id = await created();
    const path = `${PATH}/${id}/rotate-receipt-url`;
    for (const role of ['viewer', 'developer'] as const) {
      const refused = await api.callAs(role, tenant, 'POST', path, {});
      expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_role']);
    }
    const stranger = await api.tenant();
    expect((await api.callAs('owner', stranger, 'POST', path, {})).status).toBe(404);
    const simulated = await created({ provider: 'simulator-sms', label: 'Simulated', secretConfig: {} });
    const none = await rotate(simulated);
    expect([none.status, none.body.code]).toEqual([409, 'invalid_state']);
    await asAdmin('DELETE', `${PATH}/${id}`);
    expect((await rotate(id)).status).toBe(404);
    expect(await report(urlOf(id, 1))).toBe(404);
    expect((await api.callAs('owner', tenant, 'POST', path, {})).status).toBe(404);
  });
});

test('the provider catalog describes the receipt setup of each provider', async () => {
  const { body } = await api.callAs('viewer', tenant, 'GET', '/v1/admin/provider-catalog');
  const setups = new Map(
    (body as { provider: string; receiptSetup: { mode: string; steps: string[] } }[]).map((one) => [
      one.provider,
      one.receiptSetup,
    ]),
  );
  expect(setups.get('twilio')).toMatchObject({ mode: 'automatic' });
  expect(setups.get('whatsapp-cloud')).toMatchObject({ mode: 'manual' });
  expect(setups.get('whatsapp-cloud')?.steps.length).toBeGreaterThan(1);
  for (const none of ['smtp', 'fcm', 'simulator-push']) {
    expect([none, setups.get(none)]).toEqual([none, { mode: 'none', steps: [] }]);
  }
});
