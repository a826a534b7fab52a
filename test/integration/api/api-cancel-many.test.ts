import { ADDRESS_KEYS } from '#test/support/seed.ts';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { workerStore } from '#core/store/worker-store.ts';
import { findCancelable, type CancelFilter, type LivePosition } from '#core/store/messages/cancellation.ts';
import { readAsTenant } from '#core/store/query/read-scope.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

type Credential = TestKey | { readonly token: string; readonly slug: string };

function cancel(body: unknown, credential: Credential) {
  const headers: Record<string, string> =
    'text' in credential
      ? { 'x-service-key': credential.text }
      : { authorization: `Bearer ${credential.token}`, 'x-tenant-slug': credential.slug };
  return request(api.first, 'POST', '/v1/messages/cancel', { headers, body });
}

const none = { canceled: 0, alreadySending: 0, final: 0, more: false };

/** Sends a message with marks for the filters. @returns its id. */
async function sent(key: TestKey, body: object): Promise<string> {
  const reply = await send(api.first, key, body);
  expect(reply.status).toBe(202);
  return reply.body.id;
}

async function statusOf(ids: readonly string[]): Promise<string[]> {
  const rows = await api.admin<{ id: string; status: string }[]>`
    select m.id, s.status from messages m join message_states s using (seq, purge_on) where m.id = any (${[...ids]}::uuid[])`;
  const states = new Map(rows.map(({ id, status }) => [id, status]));
  return ids.map((id) => states.get(id) ?? 'nowhere');
}

/** Inserts waiting messages as rows: sending thousands would take minutes. */
async function plant(
  { tenantId }: ApiTenant,
  n: number,
  {
    tag = 'planted',
    category = 'marketing',
    externalId = null as string | null,
    batchId = null as string | null,
    ended = false,
  } = {},
): Promise<void> {
  await api.admin`
    with place as (
      select nextval('message_blocks') * 1024 + (i % 1024) as seq, i from generate_series(1, ${n}::int) i
    ), made as (
      insert into messages (seq, id, purge_on, tenant_id, channel, recipient, category, priority, test, delivery_guarantee,
        content_retention, tags, external_id, batch_id, enqueued_at)
      select p.seq, gen_random_uuid(), date_trunc('week', current_date + 20), ${tenantId}, 'sms', '+15550000001', ${category}, 1,
        false, 'at_least_once', 'retain', json_build_array(${tag}::text), ${externalId}, ${batchId}, now() from place p
      returning seq, purge_on, tenant_id
    ), live as (
      insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
        expires_at, updated_at)
      select seq, purge_on, tenant_id, gen_random_uuid(), now(), 'queued', 1, 'sms', false, false, now() + interval '1 day', now()
      from made where not ${ended}
    )
    insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    select seq, purge_on, tenant_id, 'failed', 1, false, true, now(), now() from made where ${ended}`;
}

/** Makes the oldest messages of the tenant ones that were sent and wait for another account. */
function sendBefore({ tenantId }: ApiTenant, count: number) {
  return api.admin`update live_messages set sent_attempt = 1, sent_account_id = account_id
    where tenant_id = ${tenantId}
      and seq in (select seq from live_messages where tenant_id = ${tenantId} order by seq limit ${count})`;
}

describe('messages that match a filter', () => {
  test("are canceled, but not those of another tenant or of another mode than the key's", async () => {
    const [tenant, other] = [await api.tenant(), await api.tenant()];
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    const marked = { tags: ['sale', 'spring'], category: 'marketing' };
    const ids = {
      sale: await sent(tenant.key, { ...LEAST.sms, ...marked }),
      mail: await sent(tenant.key, { ...LEAST.email, ...marked }),
      plain: await sent(tenant.key, { ...LEAST.sms, externalId: 'order-17' }),
      tested: await sent(testKey, { ...LEAST.sms, ...marked }),
      foreign: await sent(other.key, { ...LEAST.sms, ...marked, externalId: 'order-17' }),
    };
    const cancelBy = async (filter: object, credential: Credential = tenant.key) =>
      (await cancel({ filter }, credential)).body;
    const all = () => statusOf(Object.values(ids));

    expect(await cancelBy({ tag: 'nobodys' })).toEqual(none);
    expect(await cancelBy({ tag: 'sale', channel: 'push' })).toEqual(none);
    expect(await cancelBy({ tag: 'sale', channel: 'sms', category: 'marketing' })).toEqual({
      ...none,
      canceled: 1,
    });
    expect(await all()).toEqual(['canceled', 'queued', 'queued', 'queued', 'queued']);
    expect(await cancelBy({ externalId: 'order-17' })).toEqual({ ...none, canceled: 1 });
    expect(await cancelBy({ externalId: 'order-17' })).toEqual({ ...none, final: 1 });
    expect(await all()).toEqual(['canceled', 'queued', 'canceled', 'queued', 'queued']);
    const developer = { ...(await api.member(tenant, 'developer')), slug: tenant.slug };
    expect(await cancelBy({ category: 'marketing' }, developer)).toEqual({ ...none, canceled: 2 });
    expect(await all()).toEqual(['canceled', 'canceled', 'canceled', 'canceled', 'queued']);
    const { body } = await get(api.first, `/v1/messages/${ids.mail}/events`, tenant.key);
    expect(body.items[0]).toMatchObject({ type: 'message.canceled', source: 'api' });
    const entries =
      await api.admin`select actor, action, target, changes from audit_log where tenant_id = ${tenant.tenantId}`;
    expect(entries).toEqual([
      {
        actor: developer.userId,
        action: 'messages.canceled',
        target: tenant.tenantId,
        changes: [{ field: 'category', from: null, to: 'marketing' }],
      },
    ]);
  });

  test('are canceled by batchId, alone or combined with a tag', async () => {
    const [tenant, other] = [await api.tenant(), await api.tenant()];
    const messages = [LEAST.sms, { ...LEAST.sms, tags: ['later'] }, { ...LEAST.sms, tags: ['later'] }];
    const headers = { 'x-service-key': tenant.key.text };
    const reply = await request(api.first, 'POST', '/v1/messages/batch', { headers, body: { messages } });
    const { batchId, items } = reply.body as unknown as { batchId: string; items: { id: string }[] };
    const ids = items.map(({ id }) => id);
    const single = await sent(tenant.key, { ...LEAST.sms, tags: ['later'] });
    const by = async (filter: object, key = tenant.key) => (await cancel({ filter }, key)).body;
    expect(await by({ batchId }, other.key)).toEqual(none);
    expect(await by({ batchId: batchId.toUpperCase(), tag: 'later' })).toEqual({ ...none, canceled: 2 });
    expect(await by({ batchId })).toEqual({ ...none, canceled: 1, final: 2 });
    expect(await statusOf([...ids, single])).toEqual(['canceled', 'canceled', 'canceled', 'queued']);
  });

  test('are counted by result: queued, deferred and held ones are canceled, sending and final ones are not', async () => {
    const tenant = await api.tenant();
    const ids = await Promise.all(
      ['queued', 'deferred', 'held', 'sending'].map(async (status) => {
        const id = await sent(tenant.key, { ...LEAST.sms, externalId: 'one' });
        await api.admin`update live_messages l set status = ${status} from messages m where m.seq = l.seq and m.id = ${id}`;
        return id;
      }),
    );
    await plant(tenant, 3, { externalId: 'one', ended: true });
    const { status, body } = await cancel({ filter: { externalId: 'one' } }, tenant.key);
    expect([status, body]).toEqual([200, { canceled: 3, alreadySending: 1, final: 3, more: false }]);
    expect(await statusOf(ids)).toEqual(['canceled', 'canceled', 'canceled', 'sending']);
    const [row] =
      await api.admin`select coalesce(sum(finished), 0)::int as n from tenant_progress where tenant_id = ${tenant.tenantId}`;
    expect(row?.['n']).toBe(3);
  });

  test('are canceled oldest first, 10,000 per call, and the answer has more: true if some are left', async () => {
    const tenant = await api.tenant();
    await plant(tenant, 10_300);
    const filter = { tag: 'planted' };
    expect((await cancel({ filter }, tenant.key)).body).toEqual({ ...none, canceled: 10_000, more: true });
    const [border] = await api.admin`
      select (select max(r.seq) from message_results r where r.tenant_id = ${tenant.tenantId}) <
        (select min(l.seq) from live_messages l where l.tenant_id = ${tenant.tenantId}) as is_oldest_first`;
    expect(border?.['is_oldest_first']).toBe(true);
    expect((await cancel({ filter }, tenant.key)).body).toEqual({ ...none, canceled: 300 });
    expect((await cancel({ filter }, tenant.key)).body).toEqual(none);
  });

  test('are found by externalId although 10,001 final messages have the same one', async () => {
    const tenant = await api.tenant();
    await plant(tenant, 10_001, { externalId: 'campaign', ended: true });
    await plant(tenant, 5, { externalId: 'campaign' });
    expect((await cancel({ filter: { externalId: 'campaign' } }, tenant.key)).body).toEqual({
      ...none,
      canceled: 5,
    });
  });

  test('are either canceled or claimed, never both, under concurrent claims and cancels', async () => {
    const tenant = await api.tenant();
    const ids = await Promise.all(
      Array.from({ length: 400 }, () => sent(tenant.key, { ...LEAST.sms, tags: ['raced'] })),
    );
    const rows = await api.admin<{ seq: number }[]>`select seq from messages where id = any (${ids}::uuid[])`;
    const store = workerStore(api.database.open('worker', 4), 10_000, ADDRESS_KEYS);
    const claiming = Promise.all(
      rows
        .toSorted(() => Math.random() - 0.5)
        .map(({ seq }, i) => store.claim(i % 3 === 0 ? [seq] : [], { worker: `w${i % 4}`, leaseMs: 60_000 })),
    );
    const filter = { tag: 'raced' };
    const replies = await Promise.all([cancel({ filter }, tenant.key), cancel({ filter }, tenant.key)]);
    const claimed = new Set<string>((await claiming).flat().map(({ id }) => id));
    const states = await statusOf(ids);
    expect(new Set(states)).toEqual(new Set(['canceled', ...(claimed.size > 0 ? ['sending'] : [])]));
    for (const [i, id] of ids.entries()) expect(states[i] === 'sending').toBe(claimed.has(id));
    const canceled = replies.reduce((sum, { body }) => sum + body.canceled, 0);
    expect(canceled).toBe(ids.length - claimed.size);
  });
});

describe('a filter', () => {
  test.each([
    [{}, 'missing_field', 'filter'],
    [{ filter: {} }, 'validation_failed', 'filter'],
    [{ filter: { channel: null } }, 'validation_failed', 'filter'],
    [{ filter: { channel: 'fax' } }, 'validation_failed', 'filter.channel'],
    [{ filter: { tag: '' } }, 'validation_failed', 'filter.tag'],
    [{ filter: { externalId: 'x'.repeat(256) } }, 'validation_failed', 'filter.externalId'],
    [{ filter: { channel: 'sms', tags: 'sale' } }, 'validation_failed', 'filter.tags'],
    [{ filter: { channel: 'sms', batchId: 'b' } }, 'validation_failed', 'filter.batchId'],
    [{ filter: 'sms' }, 'validation_failed', 'filter'],
  ])('%j is refused, and cancels nothing', async (body, code, field) => {
    const tenant = await api.tenant();
    const id = await sent(tenant.key, LEAST.sms);
    const reply = await cancel(body, tenant.key);
    expect([reply.status, reply.body.code]).toEqual([400, code]);
    expect(reply.body.details).toEqual([expect.objectContaining({ field })]);
    expect(await statusOf([id])).toEqual(['queued']);
  });

  test('with an unknown field is refused even after many unknown fields of the body', async () => {
    const tenant = await api.tenant();
    const others = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`x${i}`, 1]));
    const body = { ...others, filter: { channel: 'sms', tags: 'sale' } };
    expect((await cancel(body, tenant.key)).body.code).toBe('validation_failed');
  });

  test('is refused with an invalid cursor', async () => {
    const tenant = await api.tenant();
    for (const cursor of ['x', Buffer.from('x'.repeat(40)).toString('base64url')]) {
      const reply = await cancel({ filter: { tag: 'a' }, cursor }, tenant.key);
      expect([reply.status, reply.body.code]).toEqual([400, 'invalid_cursor']);
    }
  });

  test.each([
    ['at different times', 1, 2 * 2_000 + 50],
    // All rows of one instant are read before the first is returned.
    ['at the same time', 0, 10_500 + 2_000 + 50],
  ])(
    'reads a bounded number of rows per call of messages due %s, and later calls continue from there',
    async (_, ms, rowsMax) => {
      const [tenant, crowd] = [await api.tenant(), await api.tenant()];
      await plant(crowd, 3_000);
      await plant(tenant, 9_000, { tag: 'other' });
      await plant(tenant, 1_500, { tag: 'spread' });
      await api.admin`update live_messages set due_at = now() + seq * ${ms} * interval '1 ms', account_id = md5((${ms} * seq % 3)::text)::uuid
      where tenant_id = ${tenant.tenantId}`;
      await api.admin`analyze messages, live_messages`;
      const id = tenant.tenantId as TenantId;
      const scopes = { sql: api.admin, cancelSql: api.admin };
      const found = new Set<number>();
      let from: LivePosition | undefined;
      let looks = 0;
      do {
        const step = await readAsTenant(scopes, id, new AbortController().signal, async (tx) => {
          await tx`set local role despatch_api`;
          const before = await rowsTouched(tx);
          // The time limit is over at once, so the search reads only one stretch.
          const step = await findCancelable(id, tx, { tag: 'spread' }, { most: 10_001, ms: -1, from });
          return { ...step, rows: (await rowsTouched(tx)) - before };
        });
        for (const { seq } of step.live) found.add(seq);
        // Two rows per message: the live row and the message.
        expect(step.rows).toBeLessThan(rowsMax);
        from = step.stoppedAt;
        looks += 1;
      } while (from !== undefined && looks < 20);
      expect([found.size, looks]).toEqual([1_500, 6]);
    },
  );

  test('scans several ranges of messages due at the same time in one call', async () => {
    const tenant = await api.tenant();
    await plant(tenant, 20_000, { tag: 'other' });
    await plant(tenant, 10, { tag: 'last' });
    await api.admin`update live_messages set due_at = date_trunc('day', now()), account_id = md5('one')::uuid
      where tenant_id = ${tenant.tenantId}`;
    await api.admin`analyze messages, live_messages`;
    const id = tenant.tenantId as TenantId;
    const found = new Set<number>();
    let from: LivePosition | undefined;
    let looks = 0;
    do {
      const step = await readAsTenant(
        { sql: api.admin, cancelSql: api.admin },
        id,
        new AbortController().signal,
        async (tx) => {
          await tx`set local role despatch_api`;
          return findCancelable(id, tx, { tag: 'last' }, { most: 10_001, ms: 1_000, from });
        },
      );
      for (const { seq } of step.live) found.add(seq);
      from = step.stoppedAt;
      looks += 1;
    } while (from !== undefined && looks < 20);
    expect(found.size).toBe(10);
    // Eleven stretches of 2,000.
    expect(looks).toBeLessThanOrEqual(6);
  });

  test('skips messages that were sent before and wait for another account', async () => {
    const tenant = await api.tenant();
    await plant(tenant, 20, { tag: 'sale' });
    await sendBefore(tenant, 15);
    const { body } = await cancel({ filter: { tag: 'sale' } }, tenant.key);
    expect(body).toEqual({ ...none, canceled: 5 });
  });

  test('by externalId counts messages sent before as final and cancels the ones after them', async () => {
    const tenant = await api.tenant();
    await plant(tenant, 10_001, { externalId: 'campaign' });
    await sendBefore(tenant, 10_000);
    const { body } = await cancel({ filter: { externalId: 'campaign' } }, tenant.key);
    expect(body).toEqual({ ...none, canceled: 1, final: 10_000 });
  });

  test('reads only the waiting rows of its tenant, and each of them once', async () => {
    const [tenant, crowd] = [await api.tenant(), await api.tenant()];
    const own = 300;
    await plant(crowd, 40_000);
    await plant(tenant, own);
    await plant(tenant, 20_000, { ended: true });
    await plant(tenant, 3, { externalId: 'named' });
    const batchId = randomUUID();
    await plant(tenant, 4, { batchId });
    for (const isKnown of [false, true]) {
      if (isKnown) await api.admin`analyze messages, live_messages, message_results`;
      const read = async (filter: CancelFilter) => {
        const scopes = { sql: api.admin, cancelSql: api.admin };
        return readAsTenant(scopes, tenant.tenantId as TenantId, new AbortController().signal, async (tx) => {
          await tx`set local role despatch_api`;
          const before = await rowsTouched(tx);
          const found = await findCancelable(tenant.tenantId as TenantId, tx, filter, {
            most: 10_001,
            ms: 60_000,
          });
          return { live: found.live.length, rows: (await rowsTouched(tx)) - before };
        });
      };
      const byTag = await read({ tag: 'planted' });
      expect(byTag.live).toBe(own + 7);
      // Two rows per message: the live row and the message.
      expect(byTag.rows).toBeLessThan(2 * own + 50);
      const byChannel = await read({ channel: 'sms' });
      expect(byChannel.live).toBe(own + 7);
      expect(byChannel.rows).toBeLessThan(own + 50);
      const named = await read({ externalId: 'named' });
      expect(named.live).toBe(3);
      expect(named.rows).toBeLessThan(50);
      const ofBatch = await read({ batchId });
      expect(ofBatch.live).toBe(4);
      expect(ofBatch.rows).toBeLessThan(50);
    }
  });
});

async function rowsTouched(tx: Sql | TransactionSql): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int as n from pg_stat_xact_user_tables`;
  return row?.n ?? 0;
}
