import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createMessageIds } from '#core/domain/storage/message-id.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import { get, LEAST, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { plantAttempt, plantResult } from '#test/support/planted-messages.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

async function tenantWith(count: number): Promise<ApiTenant & { ids: string[] }> {
  const tenant = await api.tenant();
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const { body } = await send(api.first, tenant.key, { ...LEAST.sms, externalId: `e-${i}` });
    ids.push(body.id);
  }
  return { ...tenant, ids };
}

const idsOf = (body: { items: { id: string }[] }) => body.items.map((item) => item.id);

describe('the message record', () => {
  test('has every field, with null for absent values', async () => {
    const tenant = await api.tenant();
    const message = {
      ...LEAST.sms,
      from: 'Acme',
      externalId: 'e-1',
      category: 'otp',
      priority: 'bulk',
      metadata: { a: 1 },
      tags: ['t'],
    };
    const { body: accepted } = await send(api.first, tenant.key, message);
    const { status, body } = await get(api.first, `/v1/messages/${accepted.id}`, tenant.key);
    expect(status).toBe(200);
    expect(body).toEqual({
      id: accepted.id,
      externalId: 'e-1',
      batchId: null,
      channel: 'sms',
      to: '+15550000001',
      from: 'Acme',
      status: 'queued',
      statusReason: null,
      finality: 'pending',
      failure: null,
      category: 'otp',
      priority: 'bulk',
      test: false,
      segments: 1,
      encoding: 'GSM-7',
      providerId: null,
      provider: null,
      providerMessageId: null,
      attemptCount: 0,
      nextAttemptAt: null,
      duplicateRisk: false,
      partial: false,
      lateBounce: false,
      expiresAt: new Date(Date.parse(accepted.enqueuedAt) + 600_000).toISOString(),
      scheduledAt: null,
      enqueuedAt: accepted.enqueuedAt,
      sentAt: null,
      deliveredAt: null,
      completedAt: null,
      updatedAt: accepted.enqueuedAt,
      engagement: { openedAt: null, clickedAt: null, readAt: null, complainedAt: null, unsubscribedAt: null },
      route: [],
      routeVersion: 0,
      parentMessageId: null,
      metadata: { a: 1 },
      tags: ['t'],
    });
  });

  test('is the same below /v1/messages and /v1/admin/messages', async () => {
    const tenant = await tenantWith(1);
    const { token } = await api.member(tenant, 'viewer');
    const bodies = await Promise.all([
      get(api.first, `/v1/messages/${tenant.ids[0]}`, tenant.key),
      get(api.first, `/v1/admin/messages/${tenant.ids[0]}`, tenant.key),
      get(api.first, `/v1/admin/messages/${tenant.ids[0]?.toUpperCase()}`, { token, slug: tenant.slug }),
    ]);
    for (const { status, body } of bodies) {
      expect(status).toBe(200);
      expect(body).toEqual(bodies[0]?.body);
    }
  });

  test.each([
    ['sent', false, 'simulator-sms', 'pending'],
    ['sent', true, 'smtp', 'accepted_only'],
    ['delivered', true, 'simulator-sms', 'final'],
    ['undelivered', false, 'simulator-sms', 'pending'],
    ['undelivered', true, 'simulator-sms', 'final'],
    ['failed', true, 'simulator-sms', 'final'],
    ['unknown', false, 'simulator-sms', 'pending'],
  ])(
    'a message that is %s (final: %s) through %s has the finality %s',
    async (status, final, provider, finality) => {
      const tenant = await tenantWith(1);
      await plantResult(api.admin, tenant.ids[0] ?? '', { status, final, provider });
      const { body } = await get(api.first, `/v1/messages/${tenant.ids[0]}`, tenant.key);
      expect(body).toMatchObject({ status, finality });
    },
  );

  test('the route lists the account that was called and the next account, to which the message was rerouted', async () => {
    const tenant = await tenantWith(1);
    const [id] = tenant.ids as [string];
    const accounts = await api.admin<{ id: string }[]>`
      select id from provider_accounts where tenant_id = ${tenant.tenantId} order by seq limit 2`;
    const [called, next] = accounts.map((account) => account.id) as [string, string];
    const provider = 'simulator-sms';
    await plantResult(api.admin, id, {
      status: 'expired',
      final: true,
      attempt: 1,
      accountId: next,
      provider,
    });
    const [outcome, status] = ['rejected_transient', 'deferred'];
    await plantAttempt(api.admin, id, {
      number: 1,
      outcome,
      status,
      accountId: called,
      provider,
      failure: { class: 'provider_unavailable', code: 'http_503' },
      rerouted: { accountId: next, version: 0, skipped: [] },
    });

    const { body } = await get(api.first, `/v1/messages/${id}`, tenant.key);
    expect(next).not.toBe(called);
    expect(body.route).toMatchObject([
      { providerId: called, verdict: 'failed', reason: 'provider_unavailable', attempt: 1 },
      { providerId: next, verdict: 'chosen', reason: 'next_in_route' },
    ]);
    expect(body.route[1].attempt).toBeUndefined();
    expect((await get(api.first, '/v1/messages', tenant.key)).body.items).toEqual([body]);
  });

  test('a failed message shows its failure, its attempts and its events', async () => {
    const tenant = await tenantWith(1);
    const [id] = tenant.ids as [string];
    const [account] = await api.admin<{ id: string }[]>`
      select id from provider_accounts where tenant_id = ${tenant.tenantId} and channel = 'sms'`;
    const [accountId, provider] = [account?.id ?? '', 'simulator-sms'];
    const failure = {
      class: 'invalid_recipient',
      code: 'unknown_recipient',
      retryable: false,
      providerCode: '21211',
      providerMessage: 'Invalid',
    };
    await plantResult(api.admin, id, {
      status: 'failed',
      final: true,
      attempt: 2,
      failure,
      accountId,
      provider,
    });
    for (const [number, outcome, status] of [
      [1, 'rejected_transient', 'deferred'],
      [2, 'rejected_permanent', 'failed'],
    ] as const) {
      await plantAttempt(api.admin, id, { number, outcome, status, accountId, provider, failure });
    }

    expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body).toMatchObject({
      failure,
      attemptCount: 2,
      route: [{ providerId: accountId, verdict: 'failed', reason: 'invalid_recipient', attempt: 2 }],
    });
    const attempts = await get(api.first, `/v1/messages/${id}/attempts?limit=1`, tenant.key);
    expect(attempts.body.items).toMatchObject([
      {
        number: 2,
        outcome: 'rejected_permanent',
        httpStatus: 400,
        providerCode: '21211',
        providerMessage: 'Invalid',
        providerId: accountId,
      },
    ]);
    const older = await get(
      api.first,
      `/v1/messages/${id}/attempts?limit=1&cursor=${attempts.body.nextCursor}`,
      tenant.key,
    );
    expect(older.body).toMatchObject({ items: [{ number: 1 }], nextCursor: null });
    const both = await get(api.first, `/v1/messages/${id}/attempts`, tenant.key);
    expect(idsOf(both.body)).toEqual([...idsOf(attempts.body), ...idsOf(older.body)]);

    const events = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
    expect(events.body.items).toMatchObject([
      { type: 'message.failed', source: 'worker', applied: true },
      { type: 'message.deferred', source: 'worker', applied: true },
      { type: 'message.queued', source: 'api', applied: true },
    ]);
    const page = await get(api.first, `/v1/messages/${id}/events?limit=1`, tenant.key);
    const rest = await get(
      api.first,
      `/v1/messages/${id}/events?limit=2&cursor=${page.body.nextCursor}`,
      tenant.key,
    );
    expect([...idsOf(page.body), ...idsOf(rest.body)]).toEqual(idsOf(events.body));
    expect(rest.body.nextCursor).toBeNull();
    const ids = [...idsOf(events.body), ...idsOf(both.body)];
    expect(new Set(ids).size).toBe(5);
    for (const one of ids)
      expect(one).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  test("an unknown id, another tenant's id and an invalid id are the same 404", async () => {
    const [tenant, other] = [await tenantWith(1), await tenantWith(1)];
    const messageIds = createMessageIds(await loadMessageIdKey(api.admin));
    const place = messageIds.decode(tenant.ids[0] ?? '');
    if (place === undefined) throw new Error('no id of ours');
    const unknown = [
      crypto.randomUUID(),
      // Encodes the place of an existing message whose own id is another one.
      messageIds.encode(place),
      messageIds.encode({ seq: 2 ** 50 - 1, purgeOn: '2102-06-26' }),
      other.ids[0],
      'b7e23ec2-9f0a-1b1c-8d2e-3f4a5b6c7d8e',
      '00000000-0000-0000-0000-000000000000',
      'ffffffff-ffff-ffff-ffff-ffffffffffff',
      'x',
      '%00',
      '1; drop table messages',
    ];
    for (const id of unknown) {
      for (const path of ['', '/attempts', '/events']) {
        const reply = await get(
          api.first,
          `/v1/messages/${encodeURIComponent(String(id))}${path}`,
          tenant.key,
        );
        expect(reply).toMatchObject({
          status: 404,
          body: { code: 'not_found', message: 'Resource not found' },
        });
      }
    }
  });
});

describe('the message list', () => {
  test('has pages of 50, newest first, with every message exactly once', async () => {
    const tenant = await tenantWith(53);
    const first = await get(api.first, '/v1/messages', tenant.key);
    expect(first.body.items).toHaveLength(50);
    const second = await get(api.first, `/v1/messages?cursor=${first.body.nextCursor}`, tenant.key);
    expect(second.body).toMatchObject({ nextCursor: null });
    expect([...idsOf(first.body), ...idsOf(second.body)]).toEqual(tenant.ids.toReversed());
  });

  test('is ordered by enqueuedAt, not by commit order', async () => {
    const tenant = await tenantWith(4);
    const [a, b, c, d] = tenant.ids;
    await api.admin`update messages set enqueued_at = enqueued_at - interval '1 minute' where id in ${api.admin([b!, d!])}`;
    const first = await get(api.first, '/v1/messages?limit=3', tenant.key);
    const second = await get(api.first, `/v1/messages?cursor=${first.body.nextCursor}`, tenant.key);
    expect([...idsOf(first.body), ...idsOf(second.body)]).toEqual([c, a, d, b]);
  });

  test('paging has no gaps or duplicates while messages arrive', async () => {
    const tenant = await tenantWith(4);
    const first = await get(api.first, '/v1/messages?limit=2', tenant.key);
    await send(api.first, tenant.key, LEAST.sms);
    const second = await get(api.first, `/v1/messages?limit=200&cursor=${first.body.nextCursor}`, tenant.key);
    expect([...idsOf(first.body), ...idsOf(second.body)]).toEqual(tenant.ids.toReversed());
  });

  test('a full page that is the last one has no cursor', async () => {
    const tenant = await tenantWith(2);
    expect((await get(api.first, '/v1/messages?limit=2', tenant.key)).body.nextCursor).toBeNull();
  });

  test.each(['0', '201', '-1', 'ten', '1.5', '', '1e2', '50&limit=50'])('limit=%s is 400', async (limit) => {
    const tenant = await tenantWith(0);
    const reply = await get(api.first, `/v1/messages?limit=${limit}`, tenant.key);
    expect(reply).toMatchObject({
      status: 400,
      body: { code: 'validation_failed', details: [{ field: 'limit' }] },
    });
  });

  test('limits of 1 and 200 are accepted', async () => {
    const tenant = await tenantWith(2);
    expect((await get(api.first, '/v1/messages?limit=1', tenant.key)).body.items).toHaveLength(1);
    expect((await get(api.first, '/v1/messages?limit=200', tenant.key)).body.items).toHaveLength(2);
  });

  test('a cursor is valid only for its tenant, list and filter, with any limit', async () => {
    const [tenant, other] = [await tenantWith(3), await tenantWith(3)];
    const { body } = await get(api.first, '/v1/messages?limit=1&channel=sms', tenant.key);
    const cursor: string = body.nextCursor;
    const attempt = (query: string, key = tenant.key) => get(api.first, `/v1/messages?${query}`, key);
    expect((await attempt(`limit=2&channel=sms&cursor=${cursor}`)).status).toBe(200);
    const refused = [
      await attempt(`channel=email&cursor=${cursor}`),
      await attempt(`cursor=${cursor}`),
      await attempt(`channel=sms&cursor=${cursor}`, other.key),
      await attempt(`channel=sms&cursor=${cursor.slice(0, -2)}AA`),
      await attempt(`channel=sms&cursor=${cursor}A`),
      await attempt('channel=sms&cursor=x'),
      await get(api.first, `/v1/messages/${tenant.ids[0]}/events?cursor=${cursor}`, tenant.key),
    ];
    for (const reply of refused)
      expect(reply).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } });
  });

  test('filters match by status, channel, recipient, externalId, provider and time, in both spellings', async () => {
    const tenant = await api.tenant();
    const { body: sms } = await send(api.first, tenant.key, { ...LEAST.sms, externalId: 'a' });
    const { body: mail } = await send(api.first, tenant.key, {
      ...LEAST.email,
      to: 'Ann@Example.org',
      externalId: 'b',
    });
    const accountId = crypto.randomUUID();
    await api.admin`update messages set enqueued_at = enqueued_at - interval '1 minute' where id = ${sms.id}`;
    await plantResult(api.admin, mail.id, { status: 'sent', accountId });
    const found = async (query: string) =>
      idsOf((await get(api.first, `/v1/messages?${query}`, tenant.key)).body);
    const [before, after] = ['2000-01-01T00:00:00Z', '2100-01-01T00:00:00%2B02:00'];
    for (const [query, ids] of [
      ['status=queued', [sms.id]],
      ['status=sent', [mail.id]],
      ['channel=email', [mail.id]],
      ['to=Ann@Example.org', [mail.id]],
      ['to=Ann@example.org', [mail.id]],
      ['to=%2B15550000001', [sms.id]],
      ['externalId=a', [sms.id]],
      ['external_id=b', [mail.id]],
      [`provider_id=${accountId}`, [mail.id]],
      [`providerId=${crypto.randomUUID()}`, []],
      ['since=0108-07-21T20:48:38-22:55', [mail.id, sms.id]],
      [`since=${before}`, [mail.id, sms.id]],
      [`until=${before}`, []],
      [`since=${before}&until=${after}`, [mail.id, sms.id]],
      [`until=${mail.enqueuedAt}`, [sms.id]],
      [`since=${mail.enqueuedAt}`, [mail.id]],
    ] as const) {
      expect({ query, found: await found(query) }).toEqual({ query, found: ids });
    }
  });

  test.each([
    'status=nonsense',
    'channel=fax',
    'providerId=x',
    'since=yesterday',
    'until=2026-01-01',
    'to=%00',
    'externalId=a&external_id=b',
  ])('the filter %s is 400', async (query) => {
    const tenant = await tenantWith(0);
    expect((await get(api.first, `/v1/messages?${query}`, tenant.key)).status).toBe(400);
  });

  test('shows no messages of another tenant', async () => {
    const [tenant, other] = [await tenantWith(0), await tenantWith(2)];
    expect((await get(api.first, '/v1/messages', tenant.key)).body).toEqual({ items: [], nextCursor: null });
    expect((await get(api.first, `/v1/messages?externalId=e-0`, tenant.key)).body.items).toEqual([]);
    expect(idsOf((await get(api.first, '/v1/messages', other.key)).body)).toEqual(other.ids.toReversed());
  });
});
