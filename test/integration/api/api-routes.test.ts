import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { FAILOVER_DEFAULT, orderOf, ROUTE_STEPS_MAX, type Route } from '#core/domain/routing/route.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';

const PATH = '/v1/admin/routes/sms';

let api: AdminApi;
let tenant: TestTenant;
let key: string;
let ids: [string, string, string];

beforeAll(async () => {
  api = await startAdminApi();
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  tenant = await api.tenant({ providersPerChannelMax: 1_000 });
  key = (await asAdmin('POST', '/v1/admin/api-keys', { name: 'Routes' })).body.key;
  ids = [await account(), await account(), await account()];
});

const asAdmin = (method: string, url: string, body?: unknown): Promise<Reply> =>
  api.callAs('admin', tenant, method, url, body);
const account = async (channel = 'sms', of = tenant): Promise<string> => {
  const body = { provider: `simulator-${channel}`, label: 'One of several', secretConfig: {} };
  return (await api.callAs('admin', of, 'POST', '/v1/admin/providers', body)).body.id;
};
const put = (body: unknown, headers: Record<string, string> = {}): Promise<Reply> =>
  api.call('PUT', PATH, { as: tenant.members.admin, slug: tenant.slug, body, headers });
const priority = (...providerIds: readonly string[]) => ({
  strategy: 'priority',
  steps: providerIds.map((providerId) => ({ providerId })),
});
const send = (body: object = {}): Promise<Reply> =>
  api.call('POST', '/v1/messages', {
    headers: { 'x-service-key': key },
    body: { channel: 'sms', to: '+15550000009', body: 'Hello', ...body },
  });
/** The stored routing decision of a message. */
const stored = async ({ body }: Reply) => {
  const [row] = await api.admin`
    select l.account_id, m.route_version, m.route_skipped from messages m join live_messages l using (seq)
    where m.id = ${body.id as string}`;
  return [row?.['account_id'], row?.['route_version'], row?.['route_skipped']];
};

describe('a route', () => {
  test('lists the enabled accounts by age until one is set', async () => {
    await asAdmin('POST', `/v1/admin/providers/${ids[0]}/disable`);
    const reply = await asAdmin('GET', PATH);
    expect(reply.status).toBe(200);
    expect(reply.headers['etag']).toBe('"0"');
    expect(reply.body).toEqual({
      channel: 'sms',
      strategy: 'priority',
      steps: [ids[1], ids[2]].map((providerId) => ({ providerId, weight: 1 })),
      failoverOn: FAILOVER_DEFAULT,
      maxWaitMs: null,
      receiptTimeoutMs: null,
      version: 0,
      updatedAt: null,
    });
  });

  test('that is set is returned, announced to other processes, and audited', async () => {
    const steps = [{ providerId: ids[2], weight: 3 }, { provider_id: ids[0].toUpperCase() }];
    const reply = await put({ strategy: 'weighted', steps });
    expect([reply.status, reply.headers['etag']]).toEqual([200, '"1"']);
    expect(reply.body).toMatchObject({
      channel: 'sms',
      strategy: 'weighted',
      steps: [
        { providerId: ids[2], weight: 3 },
        { providerId: ids[0], weight: 1 },
      ],
      version: 1,
    });
    expect((await asAdmin('GET', PATH)).body).toEqual(reply.body);
    expect((await asAdmin('GET', '/v1/admin/routes/email')).body).toMatchObject({ version: 0, steps: [] });
    expect(api.notices).toContainEqual({ kind: 'route', notice: { tenantId: tenant.id } });
    const { body } = await asAdmin('GET', '/v1/admin/audit-log?action=route.updated');
    expect(body.items).toHaveLength(1);
    expect(body.items[0]).toMatchObject({ target: 'sms', targetName: 'sms' });
    const changed = body.items[0].changes.map(({ field }: { field: string }) => field);
    expect(changed).toEqual(['strategy', 'steps']);
  });

  test('keeps each former version, so that its decisions can be reproduced', async () => {
    await put(priority(ids[0]));
    await put(priority(ids[1], ids[0]));
    const rows = await api.admin`
      select version, json_array_length(steps) as steps, replaced_at is null as in_force from routes
      where tenant_id = ${tenant.id} order by version`;
    expect(rows).toEqual([
      { version: 1, steps: 1, in_force: false },
      { version: 2, steps: 2, in_force: true },
    ]);
  });

  test('that is put again unchanged keeps its version', async () => {
    const first = await put(priority(ids[0]));
    const again = await put(priority(ids[0]));
    expect(again.body).toEqual(first.body);
    expect((await asAdmin('GET', '/v1/admin/audit-log?action=route.updated')).body.items).toHaveLength(1);
  });

  test('that names a deleted account can be put back as it was read, and changed around it', async () => {
    const [gone, other] = [await account(), await account()];
    await put(priority(ids[0], gone));
    for (const id of [gone, other]) await asAdmin('DELETE', `/v1/admin/providers/${id}`);
    const { body: read } = await asAdmin('GET', PATH);
    const again = await put(read);
    expect([again.status, again.body]).toEqual([200, read]);
    const warnings = [{ field: 'channel', message: 'Ignored: the channel in the path counts' }];
    expect((await put({ ...read, channel: 'email' })).body).toEqual({ ...read, warnings });
    expect((await put(priority(ids[1], gone))).body).toMatchObject({ version: read.version + 1 });
    const refused = await put(priority(ids[1], gone, other));
    expect([refused.status, refused.body.details]).toMatchObject([400, [{ field: 'steps.2.providerId' }]]);
  });

  test.each([
    [
      'by the header',
      (version: number) => ({ body: priority(ids[1]), headers: { 'if-match': `"${version}"` } }),
    ],
    [
      'by the version in the body',
      (version: number) => ({ body: { ...priority(ids[1]), version }, headers: {} }),
    ],
  ])('is 412 if the caller has an outdated version: %s', async (_name, change) => {
    const putFor = (at: number): Promise<Reply> => {
      const { body, headers } = change(at);
      return put(body, headers);
    };
    expect((await putFor(0)).status).toBe(200);
    const stale = await putFor(0);
    const message = 'Resource was changed since the version that you sent';
    expect(stale).toMatchObject({ status: 412, body: { code: 'version_mismatch', message } });
    expect((await asAdmin('GET', PATH)).body.version).toBe(1);
    expect((await putFor(1)).status).toBe(200);
  });

  test('accepts one of several concurrent changes for the same version', async () => {
    const bodies = [priority(ids[0]), priority(ids[1]), priority(ids[2]), priority(ids[2], ids[1])];
    const replies = await Promise.all(bodies.map((body) => put(body, { 'if-match': '"0"' })));
    expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412, 412, 412]);
  });

  test('is set only once by changes that ask for none to be set', async () => {
    const replies = await Promise.all(
      [ids[0], ids[1]].map((id) => put(priority(id), { 'if-none-match': '*' })),
    );
    expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412]);
    expect(replies.find(({ status }) => status === 412)?.body.code).toBe('version_mismatch');
    const refused = await put(priority(ids[2]), { 'if-none-match': '"0", "1"' });
    expect([refused.status, (await asAdmin('GET', PATH)).body.version]).toEqual([412, 1]);
  });

  test('is limited to the maximum number of steps', async () => {
    const many = await Promise.all(Array.from({ length: ROUTE_STEPS_MAX - 2 }, () => account()));
    const full = await put(priority(...many, ids[0], ids[1]));
    expect([full.status, full.body.steps.length]).toEqual([200, ROUTE_STEPS_MAX]);
    const beyond = await put(priority(...many, ...ids));
    expect([beyond.status, beyond.body.details]).toMatchObject([400, [{ field: 'steps', rule: 'max' }]]);
  });

  test('is refused with foreign, deleted, other-channel or repeated accounts and other invalid fields', async () => {
    const other = await api.tenant();
    const foreign = await account('sms', other);
    const mail = await account('email');
    const gone = await account();
    await asAdmin('DELETE', `/v1/admin/providers/${gone}`);
    const refused = await put(priority(ids[0], foreign, mail, gone, ids[0]));
    expect(refused.status).toBe(400);
    expect(refused.body.details.map(({ field, rule }: Record<string, string>) => [field, rule])).toEqual([
      ['steps.1.providerId', 'provider'],
      ['steps.2.providerId', 'provider'],
      ['steps.3.providerId', 'provider'],
      ['steps.4.providerId', 'unique'],
    ]);
    for (const body of [{ strategy: 'priority', steps: [] }, { ...priority(ids[0]), strategy: 'random' }, {}])
      expect((await put(body)).status).toBe(400);
    const heavy = { strategy: 'weighted', steps: [{ providerId: ids[0], weight: 1_001 }] };
    expect((await put(heavy)).body.details).toMatchObject([{ field: 'steps.0.weight', rule: 'max' }]);
    expect((await put(priority(ids[0]), { 'if-match': 'one' })).body.details).toMatchObject([
      { field: 'If-Match', rule: 'version' },
    ]);
    expect((await asAdmin('GET', PATH)).body.version).toBe(0);
  });

  test('may name a disabled account, which is skipped until it is enabled', async () => {
    await asAdmin('POST', `/v1/admin/providers/${ids[0]}/disable`);
    expect((await put(priority(ids[0], ids[1]))).status).toBe(200);
    expect(await stored(await send())).toEqual([ids[1], 1, [ids[0]]]);
    await asAdmin('POST', `/v1/admin/providers/${ids[0]}/enable`);
    expect(await stored(await send())).toEqual([ids[0], 1, null]);
  });

  test('has a maxWaitMs of at most a day, and a read route can be put back', async () => {
    const own = { ...priority(ids[0], ids[1]), maxWaitMs: 0 };
    expect((await put(own)).body).toMatchObject({ maxWaitMs: 0, version: 1 });
    expect((await put({ ...own, maxWaitMs: 86_400_000 })).body).toMatchObject({ version: 2 });
    const { body } = await put(priority(ids[0], ids[1]));
    expect(body).toMatchObject({ maxWaitMs: null, version: 3 });
    expect((await put(body)).body).toMatchObject(body);
    for (const maxWaitMs of [-1, 86_400_001, 0.5, '60']) {
      const { status, body: refused } = await put({ ...own, maxWaitMs });
      expect([status, refused.details[0].field]).toEqual([400, 'maxWaitMs']);
    }
    const { body: audited } = await asAdmin('GET', '/v1/admin/audit-log?action=route.updated');
    expect(audited.items[0].changes).toMatchObject([{ field: 'maxWaitMs' }]);
  });

  test('has a receiptTimeoutMs from ten seconds to a day', async () => {
    const own = { ...priority(ids[0], ids[1]), receiptTimeoutMs: 10_000 };
    const first = await put(own);
    expect(first.body).toMatchObject({ receiptTimeoutMs: 10_000 });
    const longest = await put({ ...own, receiptTimeoutMs: 86_400_000 });
    expect(longest.body).toMatchObject({ receiptTimeoutMs: 86_400_000 });
    expect((await put(longest.body)).body).toMatchObject({ receiptTimeoutMs: 86_400_000 });
    expect((await put(priority(ids[0], ids[1]))).body).toMatchObject({ receiptTimeoutMs: null });
    for (const receiptTimeoutMs of [0, 9_999, 86_400_001, 10_000.5, '10000']) {
      const { status, body: refused } = await put({ ...own, receiptTimeoutMs });
      expect([status, refused.details[0].field]).toEqual([400, 'receiptTimeoutMs']);
    }
    const { body: audited } = await asAdmin('GET', '/v1/admin/audit-log?action=route.updated');
    expect(audited.items[0].changes).toMatchObject([{ field: 'receiptTimeoutMs' }]);
  });

  test('of an unknown channel is 404', async () => {
    expect((await asAdmin('GET', '/v1/admin/routes/fax')).status).toBe(404);
  });
});

describe('a message', () => {
  test('uses the oldest account until a route is set, and then the current route', async () => {
    expect(await stored(await send())).toEqual([ids[0], null, null]);
    await put(priority(ids[2], ids[0]));
    expect(await stored(await send())).toEqual([ids[2], 1, null]);
    await put(priority(ids[1]));
    expect(await stored(await send())).toEqual([ids[1], 2, null]);
  });

  test('that names its account ignores the route', async () => {
    await put(priority(ids[2]));
    expect(await stored(await send({ providerId: ids[1] }))).toEqual([ids[1], null, null]);
  });

  test('is refused if no account of the route is usable, even if the tenant has other accounts', async () => {
    await put(priority(ids[2]));
    await asAdmin('POST', `/v1/admin/providers/${ids[2]}/disable`);
    const { status, body } = await send();
    expect([status, body.code]).toEqual([400, 'provider_not_configured']);
    expect(body.message).toBe("The route of channel 'sms' has no provider that can be used");
  });

  test('in a weighted route is assigned by the hash of its id, also in a batch', async () => {
    const steps = ids.map((providerId, i) => ({ providerId, weight: i + 1 }));
    await put({ strategy: 'weighted', steps });
    const route: Route = {
      channel: 'sms',
      version: 1,
      strategy: 'weighted',
      steps: steps.map(({ providerId, weight }) => ({ accountId: providerId, weight })),
      failoverOn: FAILOVER_DEFAULT,
    };
    const messages = Array.from({ length: 99 }, () => ({
      channel: 'sms',
      to: '+15550000009',
      body: 'Hello',
    }));
    const headers = { 'x-service-key': key };
    const { body } = await api.call('POST', '/v1/messages/batch', { headers, body: { messages } });
    const sent = [...body.items, (await send()).body] as { id: string }[];
    const rows = await api.admin<{ id: string; account_id: string }[]>`
      select m.id, l.account_id from messages m join live_messages l using (seq) where m.tenant_id = ${tenant.id}`;
    expect(rows).toHaveLength(100);
    for (const { id } of sent) {
      const [first] = orderOf(route, id);
      expect(rows.find((row) => row.id === id)?.account_id).toBe(first);
    }
    expect(new Set(rows.map((row) => row.account_id)).size).toBe(3);
  });
});
