import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { createMessageIds, type MessagePlace } from '#core/domain/storage/message-id.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import {
  scanMessages,
  type MessageFilter,
  type MessagePosition,
  type MessageRow,
} from '#core/store/messages/messages.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import type { TestKey } from '#test/support/service-keys.ts';
import { filteredPage, PAGE_ROWS_MAX } from '../../../services/api/http/lists/filtered-page.ts';

const STORED = 30_000;
/** The filter matches one message in this many. */
const RARE = 3_000;
const ACCOUNT = '5f3a4b1e-6a0c-4f0e-9f38-0a4f6c1d2e3f';

let api: TestApi;
let tenant: ApiTenant;
let viewer: { token: string; slug: string };
let testKey: TestKey;
/** Newest first. */
let rare: string[];

beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
  viewer = { token: (await api.member(tenant, 'viewer')).token, slug: tenant.slug };
  testKey = await api.key(tenant.tenantId, { mode: 'test' });
  const of = tenant.tenantId;
  await api.admin`
    with made as (
      insert into messages (seq, id, purge_on, tenant_id, channel, recipient, address, external_id, category, priority, test,
        delivery_guarantee, content_retention, metadata, tags, enqueued_at)
      select ${2 ** 40}::bigint + i, gen_random_uuid(), date_trunc('week', current_date + 20), ${of}, case when is_rare then 'push' else 'sms' end,
        case when is_rare then 'rare' else 'token' end, 'token', case when is_rare then 'rare' else 'r-' || i end,
        'transactional', 1, is_rare, 'at_least_once', 'retain',
        case when is_rare then '{"order": 7, "kind": "rare", "a.b": true}'::json end,
        case when is_rare then '["rare", "other"]'::json else '["usual"]' end,
        date_trunc('milliseconds', now()) - make_interval(secs => i * 0.01)
      from (select i, i % ${RARE} = 0 as is_rare from generate_series(1, ${STORED}) i) n
      returning seq, purge_on, tenant_id, test
    ), ended as (
      insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at,
        account_id)
      select seq, purge_on, tenant_id, 'failed', 1, false, true, now(), now(), ${ACCOUNT} from made where test
    )
    insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      expires_at, updated_at)
    select seq, purge_on, tenant_id, ${ACCOUNT}, now(), 'queued', 1, 'sms', false, false, now() + interval '1 day', now()
    from made where not test`;
  await api.admin`analyze messages, live_messages, message_results`;
  const messageIds = createMessageIds(await loadMessageIdKey(api.admin));
  const places = await api.admin<MessagePlace[]>`
    select seq::float8, purge_on::text as "purgeOn" from messages where tenant_id = ${of} and test order by enqueued_at desc`;
  rare = places.map(messageIds.encode);
  for (const [i, id] of rare.entries()) {
    await api.admin`update messages set id = ${id} where seq = ${places[i]?.seq ?? 0}`;
  }
  expect(rare).toHaveLength(STORED / RARE);
});
afterAll(() => api[Symbol.asyncDispose]());

type Page = { items: { id: string; test: boolean }[]; nextCursor: string | null };

/** Reads all pages of a list. */
async function walk(
  query: string,
  as: TestKey | typeof viewer = viewer,
  path = '/v1/messages',
): Promise<Page[]> {
  const pages: Page[] = [];
  let cursor: string | null = null;
  do {
    const url: string = `${path}?${query}${cursor === null ? '' : `&cursor=${cursor}`}`;
    const { status, body } = await get(api.first, url, as);
    expect({ url, status }).toEqual({ url, status: 200 });
    pages.push(body);
    cursor = body.nextCursor;
    expect(pages.length).toBeLessThan(1_000);
  } while (cursor !== null);
  return pages;
}

const idsOf = (pages: readonly Page[]) => pages.flatMap(({ items }) => items.map(({ id }) => id));

describe('a filter with few matches', () => {
  test.each([
    'status=failed',
    'channel=push',
    'to=rare',
    `providerId=${ACCOUNT}`,
    'tag=rare',
    'metadata.order=7',
    'metadata[kind]=rare',
    'metadata.a.b=true&metadata.kind=rare',
    'test=true',
    'externalId=rare',
    'status=failed&tag=other&test=true&limit=3',
  ])('%s finds every match over its pages', async (query) => {
    expect(idsOf(await walk(query))).toEqual(rare);
  });

  test.each(['tag=none', 'metadata.order=8', 'metadata.none=x', 'status=canceled', 'test=true&tag=usual'])(
    '%s finds nothing, and paging ends',
    async (query) => expect(idsOf(await walk(query))).toEqual([]),
  );

  test('reads at most 5,000 messages for a page, which may be empty and still have a cursor', async () => {
    const filters: MessageFilter[] = [
      { status: 'canceled' },
      { channel: 'whatsapp' },
      { to: 'nobody' },
      { accountId: tenant.tenantId },
      { tag: 'none' },
      { metadata: { order: '8' } },
      { status: 'canceled', until: '2100-01-01T00:00:00.000Z', since: '2000-01-01T00:00:00.000Z' },
    ];
    for (const filter of filters) {
      const { page, messages, states } = await readPage(filter);
      expect(page).toMatchObject({ rows: [], next: { seq: expect.anything() } });
      expect(messages).toBeGreaterThan(0);
      expect(messages).toBeLessThanOrEqual(PAGE_ROWS_MAX);
      expect(states).toBeLessThanOrEqual(PAGE_ROWS_MAX);
    }
  });

  test('by externalId or test uses an index and reads only about the rows that it returns', async () => {
    for (const filter of [{ externalId: 'rare' }, { test: true }]) {
      const { page, messages } = await readPage(filter);
      expect(page.rows).toHaveLength(rare.length);
      expect(page.next).toBeUndefined();
      expect(messages).toBeLessThanOrEqual(4 * rare.length);
    }
  });
});

test('since and until bound the number of messages that are read', async () => {
  const [first, last] = [rare[0] ?? '', rare[1] ?? ''];
  const at = async (id: string) =>
    (await get(api.first, `/v1/messages/${id}`, viewer)).body.enqueuedAt as string;
  const { page, messages } = await readPage({ tag: 'rare', since: await at(last), until: await at(first) });
  expect(page.rows.map(({ id }) => id)).toEqual([last]);
  expect(messages).toBeLessThanOrEqual(RARE + 10);
});

test("a number's + that is not encoded in the query finds its messages", async () => {
  const own = await api.tenant();
  const { body } = await send(api.first, own.key, LEAST.sms);
  expect(LEAST.sms.to).toMatch(/^\+\d+$/);
  for (const to of [LEAST.sms.to, encodeURIComponent(LEAST.sms.to)])
    expect(idsOf(await walk(`to=${to}`, own.key))).toEqual([body.id]);
});

test.each([
  'test=maybe',
  'test=1',
  'tag=',
  'metadata=x',
  'metadata.=x',
  'metadata.a=1&metadata.a=2',
  `metadata.${'k'.repeat(65)}=x`,
])('the filter %s is 400', async (query) =>
  expect((await get(api.first, `/v1/messages?${query}`, viewer)).status).toBe(400),
);

test('the OpenAPI document describes the filter parameters', async () => {
  const { body } = await request(api.first, 'GET', '/v1/openapi.json');
  const parameters = body.paths['/v1/messages'].get.parameters as { name: string }[];
  const named = (name: string) => parameters.find((parameter) => parameter.name === name);
  expect(named('metadata')).toMatchObject({ in: 'query', style: 'deepObject', explode: true });
  expect(named('metadata')).toMatchObject({ schema: { type: 'object' } });
  expect(named('test')).toMatchObject({ in: 'query', schema: { type: 'boolean' } });
  expect(named('tag')).toMatchObject({ in: 'query', schema: { type: 'string' } });
});

test('a filtered page of the audit log reads a bounded number of entries and may be empty with a cursor', async () => {
  const own = await api.tenant();
  const admin = { token: (await api.member(own, 'admin')).token, slug: own.slug };
  await api.admin`insert into audit_log (tenant_id, actor, action, target, at)
    select ${own.tenantId}, 'somebody', case when i = 1 then 'tenant.created' else 'tenant.updated' end, i::text,
      now() + make_interval(secs => i * 0.001) from generate_series(1, ${PAGE_ROWS_MAX + 1_000}) i`;
  await api.admin`analyze audit_log`;
  const pages = await walk('action=tenant.created', admin, '/v1/admin/audit-log');
  expect(pages[0]).toMatchObject({ items: [], nextCursor: expect.any(String) });
  expect(pages.flatMap(({ items }) => items)).toMatchObject([{ action: 'tenant.created', target: '1' }]);
  const all = await walk('limit=200', admin, '/v1/admin/audit-log');
  expect(new Set(idsOf(all)).size).toBe(PAGE_ROWS_MAX + 1_000);
});

describe('the modes of keys', () => {
  test('a test key reads only test messages, a live key only live ones, and users both', async () => {
    const own = await api.tenant();
    const tests = await api.key(own.tenantId, { mode: 'test' });
    const sent = {
      live: (await send(api.first, own.key, LEAST.sms)).body.id as string,
      test: (await send(api.first, tests, LEAST.sms)).body.id as string,
    };
    const person = { token: (await api.member(own, 'viewer')).token, slug: own.slug };
    for (const base of ['/v1/messages', '/v1/admin/messages']) {
      const list = async (as: TestKey | typeof person, query = '') =>
        (await get(api.first, base + query, as)).body.items.map(({ id }: { id: string }) => id);
      expect(await list(tests)).toEqual([sent.test]);
      expect(await list(own.key)).toEqual([sent.live]);
      expect(await list(person)).toEqual([sent.test, sent.live]);
      expect(await list(person, '?test=true')).toEqual([sent.test]);
      expect(await list(person, '?test=false')).toEqual([sent.live]);
      expect(await list(tests, '?test=true')).toEqual([sent.test]);
      expect(await list(tests, '?test=false')).toEqual([]);
      expect(await list(own.key, '?test=true')).toEqual([]);
      for (const path of ['', '/attempts', '/events']) {
        const statusOf = async (as: TestKey | typeof person, id: string) =>
          (await get(api.first, `${base}/${id}${path}`, as)).status;
        expect([await statusOf(tests, sent.test), await statusOf(tests, sent.live)]).toEqual([200, 404]);
        expect([await statusOf(own.key, sent.live), await statusOf(own.key, sent.test)]).toEqual([200, 404]);
        expect([await statusOf(person, sent.live), await statusOf(person, sent.test)]).toEqual([200, 200]);
      }
    }
  });

  test('a test key finds its messages among many live ones in one page', async () => {
    expect(idsOf(await walk('limit=200', testKey))).toEqual(rare);
    expect(await walk('limit=200', testKey)).toHaveLength(1);
  });

  test('a cursor of a test key is invalid for a live key', async () => {
    const { body } = await get(api.first, '/v1/messages?limit=1', testKey);
    const reply = await get(api.first, `/v1/messages?limit=1&cursor=${body.nextCursor}`, tenant.key);
    expect(reply).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } });
  });
});

/** Reads one page in the api's role and counts what the server touched for it. */
async function readPage(filter: MessageFilter) {
  return api.admin.begin(async (tx) => {
    await tx`set local role despatch_api`;
    await tx`select set_config('app.tenant', ${tenant.tenantId}, true), set_config('enable_seqscan', 'off', true)`;
    const before = await touched(tx);
    const page = await filteredPage<MessageRow, MessagePosition>(
      {
        limit: 50,
        before: undefined,
        isFiltered: true,
        positionOf: ({ enqueued_at, seq }) => ({ enqueuedAt: enqueued_at.toISOString(), seq }),
        scan: (range) => scanMessages(tenant.tenantId as TenantId, tx, filter, range),
      },
      // Leaves only the bound on rows: on a busy machine the bound on time would end the page earlier.
      () => 0,
    );
    const after = await touched(tx);
    return { page, messages: after.messages - before.messages, states: after.states - before.states };
  });
}

async function touched(
  tx: Parameters<typeof scanMessages>[1],
): Promise<{ messages: number; states: number }> {
  const [row] = await tx<{ messages: number; states: number }[]>`
    select coalesce(sum(n) filter (where relname like 'messages%'), 0)::int as messages,
      coalesce(sum(n) filter (where relname ~ '^(live_messages|message_results)'), 0)::int as states
    from (select relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) as n from pg_stat_xact_all_tables
      where schemaname = 'despatch') t`;
  return row ?? { messages: 0, states: 0 };
}
