import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#core/domain/text/duration.ts';
import { timeBucket } from '#core/domain/tenant/time-buckets.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { acceptBatch, acceptRow, seedAccount } from '#test/support/seed.ts';

let api: AdminApi;
let tenant: TestTenant;
beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

type Counted = {
  dimension?: string;
  period: string;
  channel?: string;
  value?: string;
  status: string;
  messages: number;
  segments?: number;
};

/** Inserts the counts that a worker's pass would store. */
async function plant(of: TestTenant, ...rows: Counted[]): Promise<void> {
  for (const { dimension = 'day', period, channel = '', value = '', status, messages, segments = 0 } of rows)
    await api.admin`insert into usage_counts values
      (${of.id}, ${dimension}, ${period}, ${channel}, ${value}, ${status}, ${messages}, ${segments})`;
}
async function plantTimes(
  of: TestTenant,
  period: string,
  until: string,
  times: readonly number[],
): Promise<void> {
  const counts = Array.from({ length: 121 }, (_, n) => times.filter((ms) => timeBucket(ms) === n).length);
  await api.admin`insert into usage_times values (${of.id}, 'day', ${period}, 'sms', '', ${until}, ${counts})`;
}
const ask = (query: string, of = tenant) => api.callAs('viewer', of, 'GET', `/v1/admin/usage?${query}`);
const span = 'since=2026-01-05T00:00:00Z&until=2026-01-07T00:00:00Z';

describe('usage', () => {
  test.each([
    ['until=0001-01-10T00:00:00Z', 200],
    ['since=9999-12-01T00:00:00Z&until=9999-12-31T12:00:00Z', 400],
    ['since=9999-12-31T00:00:00Z&until=9999-12-31T23:30:00Z&groupBy=hour', 400],
  ])('answers extreme times without a server error: %s', async (query, status) => {
    expect((await ask(query)).status).toBe(status);
  });

  test('counts accepted messages by status, tag, key, hour and provider', async () => {
    const own = await api.tenant();
    const accountId = await seedAccount(api.admin, own.id);
    const sender = { tenantId: own.id, slug: own.slug, apiKeyId: randomUUID() };
    await api.admin`insert into api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash)
      values (${sender.apiKeyId}, ${own.id}, ${sender.apiKeyId.slice(0, 16)}, 'Shop', 'live', '{messages:send}', ${Buffer.alloc(32)})`;
    await acceptBatch(api.admin, [
      acceptRow(sender, { segments: 2, tags: ['spring', 'shoes'] }),
      acceptRow(sender, { tags: ['spring'] }),
    ]);
    await api.admin`select count_usage(100, 0)`;
    const { status, body } = await ask('', own);
    expect(status).toBe(200);
    expect(body.items).toEqual([
      expect.objectContaining({
        messages: 2,
        segments: 3,
        statuses: expect.objectContaining({ in_progress: 2, sent: 0 }) as unknown,
        deliveryRate: null,
        timeToProvider: null,
      }),
    ]);
    expect((await ask('groupBy=tag', own)).body.items).toMatchObject([
      { tag: 'shoes', messages: 1, segments: 2 },
      { tag: 'spring', messages: 2, segments: 3 },
    ]);
    expect((await ask('groupBy=key,status', own)).body.items).toEqual([
      { keyId: sender.apiKeyId, status: 'in_progress', messages: 2, segments: 3 },
    ]);
    expect((await ask('groupBy=hour,channel', own)).body.items).toMatchObject([
      { channel: 'sms', messages: 2 },
    ]);
    await api.admin`update usage_counts set value = ${accountId}, status = 'sent'
      where tenant_id = ${own.id} and dimension = 'day'`;
    expect((await ask('groupBy=provider', own)).body.items).toMatchObject([
      { providerId: accountId, provider: 'simulator-sms', providerLabel: 'seed', statuses: { sent: 2 } },
    ]);
  });

  test('is grouped by each supported combination, in order', async () => {
    const gone = randomUUID();
    await plant(
      tenant,
      {
        period: '2026-01-05T00:00Z',
        channel: 'sms',
        value: gone,
        status: 'delivered',
        messages: 3,
        segments: 4,
      },
      {
        period: '2026-01-05T00:00Z',
        channel: 'sms',
        value: gone,
        status: 'undelivered',
        messages: 1,
        segments: 1,
      },
      { period: '2026-01-05T00:00Z', channel: 'sms', status: 'in_progress', messages: 2, segments: 2 },
      { period: '2026-01-06T00:00Z', channel: 'email', status: 'failed', messages: 5 },
      { period: '2026-01-06T00:00Z', channel: 'email', status: 'expired', messages: 0 },
      { period: '2026-01-07T00:00Z', channel: 'email', status: 'failed', messages: 100 },
      { period: '2026-01-04T00:00Z', channel: 'email', status: 'failed', messages: 100 },
      { dimension: 'hour', period: '2026-01-05T10:00Z', channel: 'sms', status: 'in_progress', messages: 2 },
      { dimension: 'tag', period: '2026-01-05T00:00Z', value: '', status: 'sent', messages: 7 },
      { dimension: 'tag', period: '2026-01-05T00:00Z', value: '=1+1', status: 'sent', messages: 1 },
    );
    await plantTimes(tenant, '2026-01-05T00:00Z', 'provider', [10, 10, 10, 5_000]);
    await plantTimes(tenant, '2026-01-06T00:00Z', 'provider', [10, 10]);
    await plantTimes(tenant, '2026-01-05T00:00Z', 'receipt', [60_000]);

    const { body } = await ask(`${span}&groupBy=day,channel`);
    expect(body).toMatchObject({
      since: '2026-01-05T00:00:00.000Z',
      until: '2026-01-07T00:00:00.000Z',
      groupBy: ['day', 'channel'],
    });
    expect(body.items).toMatchObject([
      { day: '2026-01-05', channel: 'sms', messages: 6, segments: 7, deliveryRate: 0.75 },
      {
        day: '2026-01-06',
        channel: 'email',
        messages: 5,
        segments: 0,
        deliveryRate: null,
        timeToReceipt: null,
      },
    ]);
    expect(body.items[0].statuses).toMatchObject({ delivered: 3, undelivered: 1, in_progress: 2, failed: 0 });
    const [{ timeToProvider, timeToReceipt }] = (await ask(span)).body.items;
    expect(Math.abs(timeToProvider.p50 - 10)).toBeLessThanOrEqual(1);
    expect(Math.abs(timeToProvider.p95 - 5_000)).toBeLessThanOrEqual(500);
    expect(Math.abs(timeToReceipt.p50 - 60_000)).toBeLessThanOrEqual(6_000);
    expect((await ask(`${span}&groupBy=provider,status`)).body.items).toEqual([
      { providerId: null, provider: null, providerLabel: null, status: 'failed', messages: 5, segments: 0 },
      {
        providerId: null,
        provider: null,
        providerLabel: null,
        status: 'in_progress',
        messages: 2,
        segments: 2,
      },
      {
        providerId: gone,
        provider: null,
        providerLabel: null,
        status: 'delivered',
        messages: 3,
        segments: 4,
      },
      {
        providerId: gone,
        provider: null,
        providerLabel: null,
        status: 'undelivered',
        messages: 1,
        segments: 1,
      },
    ]);
    expect((await ask(`${span}&groupBy=hour`)).body.items).toMatchObject([
      { hour: '2026-01-05T10:00:00.000Z', messages: 2 },
    ]);
    expect((await ask(`${span}&group_by=tag`)).body.items).toMatchObject([
      { tag: 'other', messages: 7 },
      { tag: '=1+1', messages: 1 },
    ]);
  });

  test('is available as CSV, by format or Accept header', async () => {
    const path = `/v1/admin/usage?${span}&groupBy=tag,status&format=csv`;
    const headers = { authorization: `Bearer ${tenant.members.viewer.token}`, 'x-tenant-slug': tenant.slug };
    const reply = await api.app.inject({ method: 'GET', url: path, headers });
    expect(reply.headers['content-type']).toBe('text/csv; charset=utf-8');
    expect(reply.body).toBe("tag,status,messages,segments\r\nother,sent,7,0\r\n'=1+1,sent,1,0\r\n");
    for (const [accept, format, type] of [
      ['text/csv', '', 'text/csv; charset=utf-8'],
      ['text/csv, application/json', '', 'text/csv; charset=utf-8'],
      ['application/json, text/csv', '', 'application/json; charset=utf-8'],
      ['*/*', '', 'application/json; charset=utf-8'],
      ['text/csv', '&format=json', 'application/json; charset=utf-8'],
    ]) {
      const asked = { ...headers, accept };
      const url = `/v1/admin/usage?${span}&groupBy=tag,status${format}`;
      const answer = await api.app.inject({ method: 'GET', url, headers: asked });
      expect([accept, format, answer.headers['content-type']]).toEqual([accept, format, type]);
    }
    const all = await api.app.inject({
      method: 'GET',
      url: `/v1/admin/usage?${span}&groupBy=day,provider&format=csv`,
      headers,
    });
    const [head, ...rows] = all.body.split('\r\n');
    expect(head).toBe(
      'day,providerId,provider,providerLabel,messages,segments,in_progress,sent,unknown,undelivered,delivered,failed,expired,canceled,suppressed,deliveryRate,timeToProviderP50,timeToProviderP95,timeToReceiptP50,timeToReceiptP95',
    );
    expect(rows).toHaveLength(4);
    for (const row of rows.slice(0, -1)) expect(row.split(',')).toHaveLength(20);
  });

  test.each([
    ['groupBy=day,hour', 'groupBy', 'combination'],
    ['groupBy=tag,channel', 'groupBy', 'combination'],
    ['groupBy=nothing', 'groupBy', undefined],
    ['groupBy=day;drop', 'groupBy', undefined],
    ['groupBy=', 'groupBy', undefined],
    ['since=yesterday', 'since', undefined],
    ['since=2026-01-05T00:00:00Z&until=2026-01-05T00:00:00Z', 'until', 'range'],
    ['since=2020-01-05T00:00:00Z', 'since', 'range'],
    [`${span.replace('01-05', '10-05').replace('2026', '2025')}&groupBy=hour`, 'since', 'range'],
    ['format=xml', 'format', undefined],
  ])('%s is refused, and the answer names the field', async (query, field, rule) => {
    const { status, body } = await ask(query);
    expect(status).toBe(400);
    expect(body.details[0]).toMatchObject({ field, ...(rule === undefined ? {} : { rule }) });
  });

  test('lists the supported combinations if a combination is refused', async () => {
    const { body } = await ask('groupBy=key,hour');
    expect(body.details[0].message).toContain('`tag` and `key` with any of `day` and `status`');
  });

  test('is refused if the answer would have too many rows', async () => {
    const own = await api.tenant();
    await api.admin`insert into usage_counts select ${own.id}, 'tag', d, '', 't' || n, 'sent', 1, 0
      from generate_series(timestamptz '2026-01-01Z', '2026-04-30Z', '1 day') d, generate_series(1, 100) n`;
    const asked = 'since=2026-01-01T00:00:00Z&until=2026-05-01T00:00:00Z';
    expect((await ask(`${asked}&groupBy=tag,day`, own)).body.details[0]).toMatchObject({ rule: 'max' });
    expect((await ask(`${asked}&groupBy=tag`, own)).body.items).toHaveLength(100);
  });

  test('shows nothing of another tenant', async () => {
    const other = await api.tenant();
    expect((await ask(span, other)).body.items).toEqual([]);
  });

  test('covers the last thirty days by default, or the last day by hour', async () => {
    const days = (await ask('')).body;
    expect(Date.parse(days.until) - Date.parse(days.since)).toBe(31 * DAY_MS);
    expect(Date.parse(days.until)).toBeGreaterThan(Date.now() - DAY_MS);
    const hours = (await ask('groupBy=hour')).body;
    expect(Date.parse(hours.until) - Date.parse(hours.since)).toBeLessThanOrEqual(25 * HOUR_MS);
  });
});
