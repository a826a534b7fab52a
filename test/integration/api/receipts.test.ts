import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { receiptKey, receiptToken } from '#core/domain/receipts/receipt-token.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import {
  storeReceiptCalls,
  WAITING_CALLS_MAX,
  type NewReceiptCall,
} from '#core/store/receipts/receipt-calls.ts';
import {
  RECEIPT_PEPPER,
  startTestApi,
  type ApiTenant,
  type Instance,
  type TestApi,
} from '#test/support/api.ts';
import { moveSuspension, seedAccount } from '#test/support/seed.ts';

const key = receiptKey(RECEIPT_PEPPER);
const BYTES = Buffer.concat([Buffer.from('{"a":"é"\r\n, &b=%zz \0'), Buffer.from([0xff, 0xfe, 0x80, 0])]);

let api: TestApi;
let admin: Sql;
let tenant: ApiTenant;
let account: string;

beforeAll(async () => {
  api = await startTestApi();
  admin = api.admin;
  tenant = await api.tenant({}, { accounts: false });
});
afterAll(() => api[Symbol.asyncDispose]());
beforeEach(async () => {
  account = await seedAccount(admin, tenant.tenantId, { provider: 'twilio' });
});

const pathOf = (id: string, version = 1): string => `/v1/receipts/${id}/${receiptToken(key, id, version)}`;

type Options = {
  readonly query?: string;
  readonly type?: string | null;
  readonly body?: Buffer;
  readonly headers?: Record<string, string>;
  readonly at?: Pick<Instance, 'app'>;
};

async function post(
  path: string,
  { query = '', type = null, body = BYTES, headers, at = api.first }: Options = {},
) {
  const reply = await at.app.inject({
    method: 'POST',
    url: path + query,
    headers: { ...(type === null ? {} : { 'content-type': type }), ...headers },
    payload: body,
  });
  return { status: reply.statusCode, headers: reply.headers, text: reply.payload };
}

type Row = {
  readonly tenant_id: string;
  readonly method: string;
  readonly receipt_version: number;
  readonly query: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly tries: number;
  readonly received_at: Date;
  readonly due_at: Date;
};

const rowsOf = (id: string): Promise<Row[]> =>
  admin<Row[]>`select * from receipt_calls where account_id = ${id} order by id`;
const countOf = async (id: string): Promise<number> => {
  const [row] = await admin<{ n: number }[]>`
    select count(*)::integer as n from receipt_calls where account_id = ${id}`;
  return row?.n ?? 0;
};

describe('a receipt call is stored before it is answered', () => {
  test.each([
    'application/json',
    'application/x-www-form-urlencoded',
    'text/plain; charset=UTF-8',
    'multipart/form-data; boundary=x',
    'garbage',
    null,
  ])('byte for byte, with the content type %j', async (type) => {
    const before = Date.now();
    const reply = await post(pathOf(account), {
      type,
      query: '?mid=a%2Fb&x=%zz&&text=é',
      headers: { 'x-twilio-signature': 'abc=', authorization: 'Basic x' },
    });
    expect([reply.status, reply.text]).toEqual([200, '<Response/>']);
    const rows = await rowsOf(account);
    expect(rows).toHaveLength(1);
    const [row] = rows as [Row];
    expect(row).toMatchObject({ tenant_id: tenant.tenantId, method: 'POST', receipt_version: 1, tries: 0 });
    expect(row.headers).toEqual({
      'x-twilio-signature': 'abc=',
      ...(type === null ? {} : { 'content-type': type }),
    });
    expect(row.query).toMatch(/^\?mid=a%2Fb&x=%zz&&text=/);
    expect(row.body.equals(BYTES)).toBe(true);
    // The time is the database's, whose clock is this machine's here.
    expect(Math.abs(row.received_at.getTime() - before)).toBeLessThan(60_000);
    expect(row.due_at).toEqual(row.received_at);
  });

  test('if it is a GET with only a query', async () => {
    const reply = await api.first.app.inject({ method: 'GET', url: `${pathOf(account)}?a=%E9&b` });
    expect(reply.statusCode).toBe(200);
    expect(await rowsOf(account)).toMatchObject([
      { method: 'GET', query: '?a=%E9&b', body: Buffer.alloc(0) },
    ]);
  });

  test('each time it is repeated', async () => {
    await post(pathOf(account));
    await post(pathOf(account));
    expect(await countOf(account)).toBe(2);
  });

  test('up to the body limit of its provider, beyond which it is 413', async () => {
    const long = await seedAccount(admin, tenant.tenantId, { provider: 'sendgrid', channel: 'email' });
    const body = randomBytes(4 * 1024 * 1024);
    expect((await post(pathOf(long), { body })).status).toBeLessThan(300);
    expect((await rowsOf(long))[0]?.body.equals(body)).toBe(true);
    expect((await post(pathOf(long), { body: Buffer.concat([body, BYTES]) })).status).toBe(413);
    expect((await post(pathOf(account), { body: randomBytes(256 * 1024 + 1) })).status).toBe(413);
    expect([await countOf(long), await countOf(account)]).toEqual([1, 0]);
  });

  test('also if its tenant is suspended and its account is disabled', async () => {
    const other = await api.tenant({}, { accounts: false });
    const own = await seedAccount(admin, other.tenantId, { provider: 'twilio' });
    await moveSuspension(admin, other.tenantId, 'abuse');
    await admin`update provider_accounts set status = 'disabled' where id = ${own}`;
    expect((await post(pathOf(own))).status).toBe(200);
    expect(await rowsOf(own)).toMatchObject([{ tenant_id: other.tenantId }]);
  });

  test('in a commit shared with concurrent calls', async () => {
    const others = await Promise.all(
      Array.from({ length: 20 }, () => seedAccount(admin, tenant.tenantId, { provider: 'twilio' })),
    );
    const transactions = async (): Promise<number> => {
      const [row] = await admin<{ n: number }[]>`
        select count(distinct xmin::text)::integer as n from receipt_calls where account_id = any (${others})`;
      return row?.n ?? 0;
    };
    const replies = await Promise.all(
      Array.from({ length: 200 }, (_, i) => post(pathOf(others[i % others.length] as string))),
    );
    expect(replies.every(({ status }) => status === 200)).toBe(true);
    const counts = await Promise.all(others.map(countOf));
    expect(counts).toEqual(others.map(() => 10));
    expect(await transactions()).toBeLessThan(100);
  });
});

describe('an invalid receipt URL', () => {
  test('is 404 for a wrong token, account or version', async () => {
    const deleted = await seedAccount(admin, tenant.tenantId, { provider: 'twilio' });
    await admin`update provider_accounts set status = 'deleted' where id = ${deleted}`;
    const simulated = await seedAccount(admin, tenant.tenantId);
    const other = await seedAccount(admin, tenant.tenantId, { provider: 'twilio' });
    const paths = {
      'wrong token': `/v1/receipts/${account}/1.${'A'.repeat(32)}`,
      "other account's token": `/v1/receipts/${account}/${receiptToken(key, other, 1)}`,
      'never was': pathOf(randomUUID()),
      deleted: pathOf(deleted),
      'calls no URL': pathOf(simulated),
      'version to come': pathOf(account, 2),
    };
    for (const [name, path] of Object.entries(paths)) {
      const reply = await post(path);
      expect([name, reply.status, JSON.parse(reply.text).code]).toEqual([name, 404, 'not_found']);
    }
    expect(await countOf(deleted)).toBe(0);
    expect(await countOf(account)).toBe(0);
  });

  test('is refused immediately after a rotation or deletion, despite api caches', async () => {
    const other = await api.instance();
    for (const at of [api.first, other]) expect((await post(pathOf(account), { at })).status).toBe(200);
    await admin`update provider_accounts set receipt_version = 2 where id = ${account}`;
    for (const at of [api.first, other]) expect((await post(pathOf(account), { at })).status).toBe(404);
    await admin`update provider_accounts set receipt_grace_until = now() + interval '1 hour' where id = ${account}`;
    other.notice('account', { tenantId: tenant.tenantId, id: account });
    expect((await post(pathOf(account), { at: other })).status).toBe(200);
    expect((await post(pathOf(account, 2), { at: other })).status).toBe(200);
    await admin`update provider_accounts set status = 'deleted' where id = ${account}`;
    expect((await post(pathOf(account, 2), { at: other })).status).toBe(404);
    expect((await rowsOf(account)).map(({ receipt_version }) => receipt_version)).toEqual([1, 1, 1, 2]);
  });
});

describe('the backlog of receipt calls', () => {
  const callOf = (id: string, bytes = 1): NewReceiptCall => ({
    accountId: id as NewReceiptCall['accountId'],
    method: 'POST',
    receiptVersion: 1,
    query: '',
    headers: {},
    body: Buffer.alloc(bytes),
  });
  const fill = async (id: string, calls: number, bytes: number): Promise<void> =>
    void (await admin`
      insert into receipt_calls (tenant_id, account_id, method, receipt_version, query, headers, body, received_at, due_at)
      select ${tenant.tenantId}, ${id}, 'POST', 1, '', '{}', decode(repeat('00', ${bytes}), 'hex'), now(), now()
      from generate_series(1, ${calls})`);

  test('is limited to 10,000 calls per account, and other accounts are not affected', async () => {
    const other = await seedAccount(admin, tenant.tenantId, { provider: 'twilio' });
    await fill(account, WAITING_CALLS_MAX - 2, 1);
    const sql = api.database.open('api', 1);
    const verdicts = await storeReceiptCalls(sql, [
      callOf(account),
      callOf(other),
      callOf(account),
      callOf(account),
      callOf(other),
    ]);
    expect(verdicts).toEqual(['stored', 'stored', 'stored', 'full', 'stored']);
    expect(await countOf(account)).toBe(WAITING_CALLS_MAX);
    const refused = await post(pathOf(account));
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '10']);
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'dependency_unavailable' });
    expect((await post(pathOf(other))).status).toBe(200);
    await admin`delete from receipt_calls where account_id = ${account}`;
    await expect.poll(async () => (await post(pathOf(account))).status).toBe(200);
  });

  test('is limited to 64 MiB per account', async () => {
    const mib = 1024 * 1024;
    await fill(account, 63, mib);
    const sql = api.database.open('api', 1);
    expect(await storeReceiptCalls(sql, [callOf(account, mib / 2), callOf(account, mib)])).toEqual([
      'stored',
      'full',
    ]);
    await admin`delete from receipt_calls where account_id = ${account}`;
  });

  test('is stored in order of arrival', async () => {
    const sql = api.database.open('api', 1);
    const calls = Array.from({ length: 50 }, (_, i) => ({ ...callOf(account), query: `?${i}` }));
    await storeReceiptCalls(sql, calls);
    expect((await rowsOf(account)).map(({ query }) => query)).toEqual(calls.map(({ query }) => query));
  });
});

test('the receipt token is neither stored, logged, returned nor in metrics', async () => {
  const canary = receiptToken(key, account, 1).slice(2);
  const replies = [
    await post(pathOf(account), { query: '?a=b' }),
    await post(`${pathOf(account)}/more`),
    await post(pathOf(account), { body: randomBytes(300_000) }),
    await api.first.app.inject({ method: 'PUT', url: pathOf(account) }),
    await api.first.app.inject({ method: 'HEAD', url: pathOf(account) }),
  ];
  expect(replies.slice(-2).map((reply) => ('statusCode' in reply ? reply.statusCode : 0))).toEqual([
    405, 405,
  ]);
  const [row] = await admin<{ text: string }[]>`
    select string_agg(r::text, '') as text from receipt_calls r where account_id = ${account}`;
  const said = replies.map((reply) => ('text' in reply ? reply.text : reply.payload));
  const metrics = await api.first.metrics.registry.metrics();
  expect(
    [...said, ...api.logLines, row?.text ?? '', metrics].filter((text) => text.includes(canary)),
  ).toEqual([]);
  expect(said.join('')).toContain(`/v1/receipts/${account}/:token`);
});

test('while the database is down, receipt calls are 503 and are not stored', async () => {
  await using own = await startTestApi();
  const { tenantId } = await own.tenant({}, { accounts: false });
  const [known, unknown] = await Promise.all(
    ['twilio', 'twilio'].map((provider) => seedAccount(own.admin, tenantId, { provider })),
  );
  const at = own.first;
  expect((await post(pathOf(known as string), { at })).status).toBe(200);
  const { name } = own.database;
  // Runs on another database: a session cannot forbid connections to its own database.
  const accept = (isOn: boolean) =>
    admin`alter database ${admin(name)} allow_connections ${admin.unsafe(String(isOn))}`;
  await accept(false);
  await own.admin`select pg_terminate_backend(pid, 30000) from pg_stat_activity
    where datname = ${name} and usename = 'despatch_api'`;
  for (const id of [known, unknown]) {
    const refused = await post(pathOf(id as string), { at });
    expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([503, true]);
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'dependency_unavailable' });
  }
  await accept(true);
  await expect.poll(async () => (await post(pathOf(unknown as string), { at })).status).toBe(200);
  const [row] = await own.admin<{ n: number }[]>`select count(*)::integer as n from receipt_calls`;
  expect(row?.n).toBe(2);
});
