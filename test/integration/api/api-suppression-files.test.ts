import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toCsv } from '../../../services/api/http/lists/csv.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

const URL = '/v1/admin/suppressions';
const NDJSON = 'application/x-ndjson';
const CSV = 'text/csv';
let api: AdminApi;
beforeAll(async () => {
  api = await startAdminApi();
});
afterAll(() => api[Symbol.asyncDispose]());

async function listening(): Promise<AddressInfo> {
  if (!api.app.server.listening) await api.app.listen({ port: 0, host: '127.0.0.1' });
  return api.app.server.address() as AddressInfo;
}
const headersOf = (tenant: TestTenant) => ({
  authorization: `Bearer ${tenant.members.developer.token}`,
  'x-tenant-slug': tenant.slug,
});
async function load(
  tenant: TestTenant,
  type: string,
  payload: string | Buffer,
  { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
) {
  const reply = await api.app.inject({
    method: 'POST',
    url: `${URL}/import${query}`,
    headers: { ...headersOf(tenant), 'content-type': type, ...headers },
    payload,
  });
  return { status: reply.statusCode, body: reply.json() };
}
async function dump(tenant: TestTenant, query = '', accept = '') {
  const headers = { ...headersOf(tenant), ...(accept === '' ? {} : { accept }) };
  const reply = await api.app.inject({ method: 'GET', url: `${URL}/export${query}`, headers });
  return { status: reply.statusCode, text: reply.payload, headers: reply.headers };
}
const rowsOf = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const lines = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const mails = (n: number): object[] =>
  Array.from({ length: n }, (_, i) => ({ channel: 'email', address: `${i}-${randomUUID()}@example.com` }));
const stored = async ({ id }: TestTenant): Promise<number> => {
  const [row] = await api.admin`select count(*)::integer as n from suppressions where tenant_id = ${id}`;
  return row?.['n'];
};
const told = ({ id }: TestTenant) =>
  api.admin`select type, details from tenant_events where tenant_id = ${id} order by event_seq`;
const audited = async (tenant: TestTenant) => {
  const { items } = (await api.callAs('admin', tenant, 'GET', '/v1/admin/audit-log')).body;
  return items
    .map(({ action, target, changes }: Record<string, { field: string; to: number }[]>) => ({
      action,
      target,
      facts: Object.fromEntries((changes ?? []).map(({ field, to }) => [field, to])),
    }))
    .toReversed();
};

describe('an import', () => {
  test('adds entries and emits one event; a repeated import changes nothing', async () => {
    const tenant = await api.tenant();
    const text = lines([
      { channel: 'email', address: 'Ann@EXAMPLE.com', reason: 'unsubscribe' },
      { channel: 'sms', address: '+15550000001', reason: 'opt_out', expires_at: '2999-01-01T00:00:00Z' },
      { channel: 'push', address: 'a token', hashed: true, scope: 'marketing' },
    ]);
    const first = await load(tenant, NDJSON, text);
    expect(first).toEqual({
      status: 200,
      body: {
        importId: expect.any(String),
        received: 3,
        created: 3,
        replaced: 0,
        unchanged: 0,
        invalid: 0,
        invalidLines: [],
        errors: [],
      },
    });
    const { items } = (await api.callAs('developer', tenant, 'GET', URL)).body;
    const common = { source: 'import', messageId: null, expiresAt: null, hashed: false };
    expect(items).toHaveLength(3);
    expect(items).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          ...common,
          address: 'Ann@example.com',
          reason: 'unsubscribe',
          scope: 'marketing',
        }),
        expect.objectContaining({
          ...common,
          address: '+15550000001',
          expiresAt: '2999-01-01T00:00:00.000Z',
        }),
        expect.objectContaining({
          ...common,
          address: null,
          hashed: true,
          reason: 'manual',
          scope: 'marketing',
        }),
      ]),
    );
    expect(
      (await api.callAs('developer', tenant, 'GET', `${URL}?address=a%20token`)).body.items,
    ).toHaveLength(1);

    const second = await load(tenant, NDJSON, text);
    expect(second.body).toMatchObject({ received: 3, created: 0, replaced: 0, unchanged: 3 });
    expect((await api.callAs('developer', tenant, 'GET', URL)).body.items).toEqual(items);
    expect(await told(tenant)).toEqual([{ type: 'suppression.imported', details: { entries: 3 } }]);
    expect(await audited(tenant)).toEqual([
      {
        action: 'suppression.imported',
        target: first.body.importId,
        facts: { rows: 3, created: 3, replaced: 0 },
      },
      {
        action: 'suppression.imported',
        target: second.body.importId,
        facts: { rows: 3, created: 0, replaced: 0 },
      },
    ]);
  });

  test('replaces an entry that differs; of several rows for a recipient the last one wins', async () => {
    const tenant = await api.tenant();
    const address = 'ann@example.com';
    const made = (await api.callAs('developer', tenant, 'POST', URL, { channel: 'email', address })).body;
    const reply = await load(
      tenant,
      CSV,
      toCsv([
        ['channel', 'address', 'scope', 'note'],
        ['email', address, 'marketing', 'x'],
        ['email', 'ANN@example.com', '', ''],
        ['email', 'ann@EXAMPLE.com', 'all', ''],
        ['email', address, 'marketing', 'y'],
      ]),
    );
    expect(reply.body).toMatchObject({ received: 4, created: 0, replaced: 1, unchanged: 3 });
    expect(reply.body.warnings).toEqual([{ field: 'note', message: 'Unknown field, ignored' }]);
    const { items } = (await api.callAs('developer', tenant, 'GET', `${URL}?address=ANN@example.com`)).body;
    expect(items).toMatchObject([{ address, scope: 'marketing', source: 'import' }]);
    expect(items[0].id).not.toBe(made.id);
  });

  test('does not weaken an unsubscribe that came from the recipient', async () => {
    const tenant = await api.tenant();
    const row = { channel: 'email', address: 'ann@example.com', reason: 'unsubscribe' };
    await load(tenant, NDJSON, lines([row]));
    await api.admin`update suppressions set source = 'recipient' where tenant_id = ${tenant.id}`;
    const { items } = (await api.callAs('developer', tenant, 'GET', URL)).body;
    for (const over of [
      { expiresAt: '2999-01-01T00:00:00Z' },
      { scope: 'all', expiresAt: '2999-01-01T00:00:00Z' },
    ]) {
      const reply = await load(tenant, NDJSON, lines([{ ...row, ...over }]));
      expect(reply.body).toMatchObject({ replaced: 0, unchanged: 1 });
    }
    expect((await api.callAs('developer', tenant, 'GET', URL)).body.items).toEqual(items);
    const wider = await load(tenant, NDJSON, lines([{ ...row, scope: 'all' }]));
    expect(wider.body).toMatchObject({ replaced: 1 });
    await api.admin`update suppressions set source = 'recipient' where tenant_id = ${tenant.id}`;
    expect((await load(tenant, NDJSON, lines([row]))).body).toMatchObject({ replaced: 0, unchanged: 1 });
  });

  test('with invalid rows names each and stores nothing, unless the mode is permissive', async () => {
    const tenant = await api.tenant();
    const text = 'channel,address\nsms,+15550000001\nsms,ann@example.com\nemail,\npush,x\n';
    const refused = await load(tenant, CSV, text);
    expect(refused).toMatchObject({
      status: 400,
      body: {
        code: 'validation_failed',
        message: 'Nothing was imported: 2 of the rows are wrong',
        details: [
          { field: 'lines.3.address', rule: 'address' },
          { field: 'lines.4.address', rule: 'required' },
        ],
      },
    });
    expect(refused.body.details.map(Object.keys)).toEqual([
      ['field', 'rule', 'message'],
      ['field', 'rule', 'message'],
    ]);
    expect(await stored(tenant)).toBe(0);
    expect(await audited(tenant)).toEqual([]);
    expect(await load(tenant, CSV, text, { query: '?mode=permissive' })).toMatchObject({
      status: 200,
      body: {
        received: 4,
        created: 2,
        invalid: 2,
        invalidLines: [{ from: 3, to: 4 }],
        errors: [
          { line: 3, field: 'address', rule: 'address' },
          { line: 4, field: 'address', rule: 'required' },
        ],
      },
    });
    expect(await stored(tenant)).toBe(2);
  });

  test('names each of 1,500 invalid rows', async () => {
    const tenant = await api.tenant();
    const rows = Array.from({ length: 3_000 }, (_, i) => ({
      channel: i % 2 === 0 ? 'sms' : 'push',
      address: 'x',
    }));
    const { details } = (await load(tenant, NDJSON, lines(rows))).body;
    const named: string[] = details.map(({ field }: { field: string }) => field.split('.')[1] ?? '');
    const more = /: (.*)$/.exec(details.at(-1).message)?.[1]?.split(', ') ?? [];
    expect([...named.slice(0, -1), ...more].map(Number)).toEqual(
      Array.from({ length: 1_500 }, (_, i) => 2 * i + 1),
    );
    const { invalid, invalidLines } = (await load(tenant, NDJSON, lines(rows), { query: '?mode=permissive' }))
      .body;
    expect({ invalid, ranges: invalidLines.length, stored: await stored(tenant) }).toEqual({
      invalid: 1_500,
      ranges: 1_500,
      stored: 1,
    });
  });

  test('of several transactions audits its start and end, and emits one event per transaction', async () => {
    const tenant = await api.tenant();
    const { body } = await load(tenant, NDJSON, lines(mails(2_500)));
    expect(body).toMatchObject({ received: 2_500, created: 2_500 });
    expect((await told(tenant)).map(({ details }) => details)).toEqual([
      { entries: 1_000 },
      { entries: 1_000 },
      { entries: 500 },
    ]);
    expect(await audited(tenant)).toEqual([
      { action: 'suppression.import_begun', target: body.importId, facts: { rows: 2_500 } },
      {
        action: 'suppression.imported',
        target: body.importId,
        facts: { rows: 2_500, created: 2_500, replaced: 0 },
      },
    ]);
  });

  test('that is interrupted is 503 with the lines stored so far, and can be repeated', async () => {
    const tenant = await api.tenant();
    await api.admin.unsafe(`
      create function fail_on_boom() returns trigger language plpgsql as $$ begin
        if new.address = 'boom@example.com' then raise exception 'away' using errcode = '57P03'; end if;
        return new;
      end $$;
      create trigger fail_on_boom before insert on suppressions for each row execute function fail_on_boom()`);
    const text = lines([...mails(1_500), { channel: 'email', address: 'boom@example.com' }, ...mails(1_500)]);
    const reply = await load(tenant, NDJSON, text);
    await api.admin.unsafe('drop trigger fail_on_boom on suppressions; drop function fail_on_boom()');
    expect(reply).toMatchObject({
      status: 503,
      body: {
        code: 'dependency_unavailable',
        message: expect.stringContaining('lines 1-1000 are stored, and those of 1001-2000 may be'),
        details: [
          { field: 'lines', rule: 'stored', message: 'Stored: 1-1000' },
          { field: 'lines', rule: 'unknown', message: 'May be stored: 1001-2000' },
          { field: 'lines', rule: 'rest' },
        ],
      },
    });
    expect(await stored(tenant)).toBe(1_000);
    expect(await audited(tenant)).toMatchObject([
      { action: 'suppression.import_begun', facts: { rows: 3_001 } },
    ]);
    expect((await load(tenant, NDJSON, text)).body).toMatchObject({ created: 2_001, unchanged: 1_000 });
  });

  test('runs one at a time per tenant: of two more, one waits and one is refused with 503', async () => {
    const [tenant, other] = [await api.tenant(), await api.tenant()];
    const texts = Array.from({ length: 3 }, () => lines(mails(1_500)));
    const replies = await Promise.all([
      ...texts.map((text) => load(tenant, NDJSON, text)),
      load(other, NDJSON, lines(mails(1))),
    ]);
    expect(
      replies
        .map(({ status }) => status)
        .slice(0, 3)
        .toSorted((a, b) => a - b),
    ).toEqual([200, 200, 503]);
    expect(replies[3]?.status).toBe(200);
    expect(await stored(tenant)).toBe(3_000);
    expect((await load(tenant, NDJSON, lines(mails(1)))).status).toBe(200);
  });

  test('does not block large requests of other tenants', async () => {
    const [tenant, other] = [await api.tenant(), await api.tenant()];
    const order: string[] = [];
    const importing = load(tenant, NDJSON, lines(mails(20_000))).then(({ status }) =>
      order.push(`import ${status}`),
    );
    while ((await stored(tenant)) === 0) await sleep(20);
    const note = 'x'.repeat(200_000);
    const large = await api.callAs('developer', other, 'POST', URL, { channel: 'push', address: 'a', note });
    order.push(`other ${large.status}`);
    await importing;
    expect(order).toEqual(['other 201', 'import 200']);
  });

  test('whose client disconnects before the end of the body stores nothing', async () => {
    const tenant = await api.tenant();
    const { port } = await listening();
    const outgoing = request({
      port,
      method: 'POST',
      path: `${URL}/import`,
      headers: { ...headersOf(tenant), 'content-type': NDJSON, 'content-length': 1_000_000 },
    });
    const ended = new Promise((resolve) => outgoing.once('close', resolve));
    outgoing.once('error', () => {});
    outgoing.write(lines(mails(2_000)), () => outgoing.destroy());
    await ended;
    expect((await load(tenant, NDJSON, lines(mails(1)))).body).toMatchObject({ created: 1 });
    expect(await stored(tenant)).toBe(1);
  });

  test('stops before its next transaction if the client disconnects', async () => {
    const tenant = await api.tenant();
    const { port } = await listening();
    const headers = { ...headersOf(tenant), 'content-type': NDJSON };
    const outgoing = request({ port, method: 'POST', path: `${URL}/import`, headers });
    outgoing.once('error', () => {});
    outgoing.end(lines(mails(20_000)));
    while ((await stored(tenant)) === 0) await sleep(20);
    outgoing.destroy();
    // The next import starts after the aborted one has ended.
    expect((await load(tenant, NDJSON, lines(mails(1)))).body).toMatchObject({ created: 1 });
    expect(await stored(tenant)).toBeLessThan(20_000);
    expect(await audited(tenant)).toMatchObject([
      { action: 'suppression.import_begun', facts: { rows: 20_000 } },
      { action: 'suppression.imported', facts: { rows: 1 } },
    ]);
  });

  test('of a suspended tenant is refused even if the api has an outdated copy', async () => {
    const tenant = await api.tenant();
    await load(tenant, NDJSON, lines(mails(1)));
    // The api still has an older copy of the tenant.
    await api.admin`update tenants set status = 'suspended', suspension_reason = 'abuse', suspended_at = now(),
      suspended_by = 'x' where id = ${tenant.id}`;
    expect(await load(tenant, NDJSON, lines(mails(1)))).toMatchObject({
      status: 403,
      body: { code: 'tenant_suspended' },
    });
    expect(await stored(tenant)).toBe(1);
  });

  test.each([
    ['no rows', NDJSON, '\n\n', 400, 'validation_failed'],
    ['an empty body', CSV, '', 400, 'validation_failed'],
    ['JSON', 'application/json', '{}', 415, 'unsupported_media_type'],
    ['no content type', '', '{}', 415, 'unsupported_media_type'],
    ['another charset', 'text/csv; charset=latin1', 'channel,address', 415, 'unsupported_media_type'],
    ['an open quote', CSV, 'channel,address\npush,"a\npush,b', 400, 'validation_failed'],
    ['100,001 rows', NDJSON, '{"channel":"push","address":"a"}\n'.repeat(100_001), 413, 'payload_too_large'],
    ['one line of 14 MiB', NDJSON, 'x'.repeat(14 * 1024 * 1024), 400, 'validation_failed'],
    ['more than 15 MiB', NDJSON, 'x'.repeat(15 * 1024 * 1024 + 1), 413, 'payload_too_large'],
  ])('of %s is refused', async (_, type, text, status, code) => {
    const tenant = await api.tenant();
    expect(await load(tenant, type, text)).toMatchObject({ status, body: { code } });
    expect(await stored(tenant)).toBe(0);
  });

  test('with Content-Encoding gzip is refused', async () => {
    const tenant = await api.tenant();
    const reply = await load(tenant, NDJSON, 'x', { headers: { 'content-encoding': 'gzip' } });
    expect(reply).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
  });

  test('with Content-Encoding identity is accepted', async () => {
    const tenant = await api.tenant();
    const row = lines([{ channel: 'push', address: 'a' }]);
    const reply = await load(tenant, NDJSON, row, { headers: { 'content-encoding': 'identity' } });
    expect(reply).toMatchObject({ status: 200, body: { created: 1 } });
  });

  test('with the charset UTF-8 in its content type is accepted', async () => {
    const tenant = await api.tenant();
    const reply = await load(tenant, 'Text/CSV; charset="UTF-8"', 'channel,address\npush,a');
    expect(reply).toMatchObject({ status: 200, body: { created: 1 } });
  });
});

describe('an export', () => {
  test('has all unexpired entries as NDJSON or CSV, and can be imported again', async () => {
    const [tenant, other, third] = [await api.tenant(), await api.tenant(), await api.tenant()];
    const rows = [
      { channel: 'sms', address: '+15550000001', reason: 'opt_out', expiresAt: '2999-01-01T00:00:00.000Z' },
      { channel: 'email', address: '=cmd@example.com', reason: 'complaint' },
      { channel: 'email', address: "'+cmd@example.com", reason: 'complaint', scope: 'all' },
      { channel: 'push', address: 'a,"quoted"\ntoken' },
      { channel: 'push', address: '-t', reason: 'hard_bounce' },
      ...mails(2_300),
    ];
    await load(tenant, NDJSON, lines(rows));
    await api.admin`insert into suppressions (tenant_id, channel, address_key, reason, scope, source, expires_at)
      values (${tenant.id}, 'sms', ${Buffer.alloc(16, 7)}, 'manual', 'all', 'api', now())`;
    const whole = await dump(tenant);
    expect(whole).toMatchObject({ status: 200, headers: { 'content-type': NDJSON } });
    expect(whole.headers['content-disposition']).toBe('attachment; filename="suppressions.ndjson"');
    const listed = (await api.callAs('developer', tenant, 'GET', `${URL}?limit=200`)).body.items;
    expect(rowsOf(whole.text)).toHaveLength(2_305);
    expect(rowsOf(whole.text).slice(0, 200)).toEqual(listed);

    const sheet = await dump(tenant, '?format=csv');
    expect(sheet.headers['content-type']).toBe('text/csv; charset=utf-8');
    expect(sheet.text).toContain('sms,+15550000001,');
    expect(sheet.text).toContain("email,'=cmd@example.com,");
    expect((await dump(tenant, '', 'text/csv')).text).toBe(sheet.text);

    const facts = (text: string) =>
      rowsOf(text)
        .map((entry) => JSON.stringify({ ...entry, id: null, createdAt: null }))
        .toSorted();
    expect((await load(other, NDJSON, whole.text)).body).toEqual(
      expect.not.objectContaining({ warnings: expect.anything() }),
    );
    expect((await load(third, CSV, sheet.text)).body).toEqual(
      expect.not.objectContaining({ warnings: expect.anything() }),
    );
    expect(facts((await dump(other)).text)).toEqual(facts(whole.text));
    expect(facts((await dump(third)).text)).toEqual(facts(whole.text));
    expect((await load(tenant, CSV, sheet.text)).body).toMatchObject({ created: 0, replaced: 0 });
  });

  test('with entries that have expired since can be imported, and those change nothing', async () => {
    const [tenant, other] = [await api.tenant(), await api.tenant()];
    const expiresAt = '2999-01-01T00:00:00.000Z';
    const [first, second] = [
      { channel: 'push', address: 'a', expiresAt },
      { channel: 'push', address: 'b', expiresAt },
    ];
    await load(tenant, NDJSON, lines([first, second, { channel: 'push', address: 'c' }]));
    const { text } = await dump(tenant);
    const later = text.replaceAll(expiresAt, '2020-01-01T00:00:00.000Z');
    await load(other, NDJSON, lines([{ channel: 'push', address: 'a' }]));
    const counts = { received: 3, created: 1, replaced: 0, unchanged: 2, invalid: 0 };
    const warnings = [{ field: 'expiresAt', message: 'Ignored 2 rows whose expiry has passed' }];
    expect(await load(other, NDJSON, later)).toMatchObject({ status: 200, body: { ...counts, warnings } });
    expect(rowsOf((await dump(other)).text)).toMatchObject([
      { address: 'c', expiresAt: null },
      { address: 'a', expiresAt: null },
    ]);
    expect((await audited(other)).at(-1)?.facts).toEqual({ rows: 1, created: 1, replaced: 0 });
  });

  test('of hashed entries has no address, so it is refused as an import', async () => {
    const tenant = await api.tenant();
    await load(tenant, NDJSON, lines([{ channel: 'push', address: 'a', hashed: true }]));
    const { text } = await dump(tenant);
    expect(rowsOf(text)).toMatchObject([{ address: null, hashed: true }]);
    expect(await load(tenant, NDJSON, text)).toMatchObject({
      status: 400,
      body: { details: [{ field: 'lines.1.address', rule: 'required' }] },
    });
    const { text: sheet } = await dump(tenant, '?format=csv');
    expect((await load(tenant, CSV, sheet)).body.details).toMatchObject([{ field: 'lines.2.address' }]);
  });

  test('supports the filters of the list', async () => {
    const tenant = await api.tenant();
    await load(
      tenant,
      NDJSON,
      lines([
        { channel: 'push', address: '+15550000001', reason: 'complaint' },
        { channel: 'sms', address: '+15550000001' },
        { channel: 'sms', address: '+15550000002' },
      ]),
    );
    const by = async (query: string) =>
      rowsOf((await dump(tenant, query)).text).map(({ channel, address }) => `${channel} ${address.at(-1)}`);
    expect((await by('?channel=sms')).toSorted()).toEqual(['sms 1', 'sms 2']);
    expect((await by('?address=%2B15550000001')).toSorted()).toEqual(['push 1', 'sms 1']);
    expect(await by('?reason=complaint')).toEqual(['push 1']);
    expect(await by('?scope=marketing&source=import')).toEqual(['push 1']);
    expect(await by('?source=api')).toEqual([]);
    expect((await dump(tenant, '?reason=bored')).status).toBe(400);
    expect((await dump(tenant, '?source=api&format=csv')).text).toMatch(/^id,channel,address,[^\n]*\r\n$/);
  });

  test('stops if its client disconnects, and frees its slot for the next export', async () => {
    const tenant = await api.tenant();
    await api.admin`insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
      select ${tenant.id}, 'push', decode(md5(n || ${tenant.id}::text), 'hex'), repeat('x', 4000), 'manual', 'all', 'api'
      from generate_series(1, 20000) n`;
    const { port } = await listening();
    const url = `http://127.0.0.1:${port}${URL}/export`;
    for (let n = 0; n < 3; n++) {
      const going = new AbortController();
      const reply = await fetch(url, { headers: headersOf(tenant), signal: going.signal });
      const reader = reply.body?.getReader();
      expect((await reader?.read())?.value?.length).toBeGreaterThan(0);
      going.abort();
      await expect(reader?.read()).rejects.toThrow('aborted');
    }
    const whole = await fetch(url, { headers: headersOf(tenant) });
    expect((await whole.text()).split('\n')).toHaveLength(20_001);
  });

  test('answers HEAD as GET, without reading the list and while another export runs', async () => {
    const { port } = await listening();
    await using download = await stalled(api, port);
    const head = async (query: string, headers: Record<string, string> = headersOf(download.tenant)) => {
      const reply = await fetch(`http://127.0.0.1:${port}${URL}/export${query}`, { method: 'HEAD', headers });
      return [reply.status, reply.headers.get('content-type'), reply.headers.get('content-disposition')];
    };
    const named = (name: string) => `attachment; filename="suppressions.${name}"`;
    expect(await head('')).toEqual([200, NDJSON, named('ndjson')]);
    await api.admin`revoke select on suppressions from despatch_api`;
    try {
      expect(await head('?format=csv')).toEqual([200, `${CSV}; charset=utf-8`, named('csv')]);
      expect((await head('?format=xml'))[0]).toBe(400);
      expect((await head('', {}))[0]).toBe(401);
    } finally {
      await api.admin`grant select on suppressions to despatch_api`;
    }
  });

  /** Begins the export of a long list and reads only its first bytes. */
  async function stalled(on: AdminApi, port: number) {
    const tenant = await on.tenant();
    await on.admin`insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
      select ${tenant.id}, 'push', decode(md5(n || ${tenant.id}::text), 'hex'), repeat('x', 4000), 'manual', 'all', 'api'
      from generate_series(1, 20000) n`;
    const reply = await fetch(`http://127.0.0.1:${port}${URL}/export`, { headers: headersOf(tenant) });
    const reader = reply.body?.getReader();
    expect((await reader?.read())?.value?.length).toBeGreaterThan(0);
    const rest = async () => {
      while ((await reader?.read())?.done === false);
    };
    return { tenant, rest, [Symbol.asyncDispose]: async () => reader?.cancel().catch(() => undefined) };
  }

  test('completes while clients of other tenants stall their exports', async () => {
    const { port } = await listening();
    await using downloads = new AsyncDisposableStack();
    for (const _ of ['first', 'second']) downloads.use(await stalled(api, port));
    const tenant = await api.tenant();
    await load(tenant, NDJSON, lines(mails(600)));
    const { status, text } = await dump(tenant);
    expect([status, rowsOf(text).length]).toEqual([200, 600]);
  });

  test('is terminated if its client does not read a part in time', async () => {
    await using own = await startAdminApi({
      downloadLimits: { downloadMsMax: 60_000, downloadPartMsMax: 1_000 },
    });
    await own.app.listen({ port: 0, host: '127.0.0.1' });
    const { port } = own.app.server.address() as AddressInfo;
    await using download = await stalled(own, port);
    const connections = () =>
      new Promise<number>((resolve) => own.app.server.getConnections((_, count) => resolve(count)));
    await expect.poll(connections, { timeout: 10_000 }).toBe(0);
    await expect(download.rest()).rejects.toThrow('terminated');
  });

  test('is terminated if its user is removed or loses the developer role', async () => {
    const { port } = await listening();
    for (const change of ['removed', 'viewer'] as const) {
      await using download = await stalled(api, port);
      const { owner, developer } = download.tenant.members;
      const path = `/v1/admin/members/${developer.userId}`;
      const changed =
        change === 'removed'
          ? await api.call('DELETE', path, { as: owner, slug: download.tenant.slug })
          : await api.call('PUT', path, { as: owner, slug: download.tenant.slug, body: { role: 'viewer' } });
      expect(changed.status).toBeLessThan(300);
      await expect(download.rest()).rejects.toThrow('terminated');
    }
  });

  test('that fails in the database is terminated, so that it does not look complete', async () => {
    const tenant = await api.tenant();
    await api.admin`insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
      select ${tenant.id}, 'push', decode(md5(n || ${tenant.id}::text), 'hex'), repeat('x', 4000), 'manual', 'all', 'api'
      from generate_series(1, 20000) n`;
    const { port } = await listening();
    const reply = await fetch(`http://127.0.0.1:${port}${URL}/export`, { headers: headersOf(tenant) });
    const reader = reply.body?.getReader();
    await reader?.read();
    await api.admin`revoke select on suppressions from despatch_api`;
    const rest = (async () => {
      while ((await reader?.read())?.done === false);
    })();
    await expect(rest).rejects.toThrow('terminated');
    await api.admin`grant select on suppressions to despatch_api`;
  });
});
