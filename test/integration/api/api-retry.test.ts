import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import type { Role } from '#core/domain/tenant/role.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { moveSuspension, seedAccount } from '#test/support/seed.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
let tenant: ApiTenant;
let developer: Person;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
  developer = await member('developer');
});
afterAll(() => api[Symbol.asyncDispose]());

type Person = { readonly token: string; readonly slug: string; readonly userId: string };

async function member(role: Role, of = tenant): Promise<Person> {
  return { ...(await api.member(of, role)), slug: of.slug };
}

type RetryOptions = { body?: object; key?: string; via?: Pick<TestApi['first'], 'app'> };

function retry(id: string, who: Person = developer, { body, key, via = api.first }: RetryOptions = {}) {
  return request(via, 'POST', `/v1/admin/messages/${id}/retry`, {
    ...(body === undefined ? {} : { body }),
    headers: {
      authorization: `Bearer ${who.token}`,
      'x-tenant-slug': who.slug,
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
  });
}

/** Creates a message that ended in this status. */
async function ended(
  status: string,
  body: object = LEAST.sms,
  key: TestKey = tenant.key,
  via = api.first,
): Promise<string> {
  const { body: accepted } = await send(via, key, body);
  await end(accepted.id, status, key);
  return accepted.id as string;
}

async function end(id: string, status: string, key: TestKey): Promise<void> {
  await request(api.first, 'POST', `/v1/messages/${id}/cancel`, { headers: { 'x-service-key': key.text } });
  await api.admin`
    update message_results r set status = ${status} from messages m where m.seq = r.seq and m.id = ${id}`;
}

/** The stored row of a message with its content, stored inline or apart. */
async function stored(id: string) {
  const [row] = await api.admin`
    select coalesce((select c.content::json from message_contents c where c.message_seq = m.seq), m.content) as content,
      (select count(*)::int from unsettled_contents u where u.message_seq = m.seq) as unsettled,
      m.channel, m.recipient, m.address, m.sender, m.external_id, m.category, m.priority, m.test, m.segments, m.encoding,
      m.delivery_guarantee, m.content_retention, m.metadata, m.tags
    from messages m where m.id = ${id}`;
  return row;
}

async function placeOf(id: string) {
  const [row] = await api.admin`
    select m.parent_id, m.pinned_account_id, m.api_key_id, l.account_id, l.status, l.pinned, l.content_bytes,
      extract(epoch from l.expires_at - m.enqueued_at)::int as lives
    from messages m left join live_messages l on l.seq = m.seq where m.id = ${id}`;
  return row;
}

async function used(tenantId: string) {
  const [row] = await api.admin`
    select used::int, accepted::int from tenant_usage where tenant_id = ${tenantId} order by slot desc limit 1`;
  return row;
}

const countOf = async (tenantId: string): Promise<number> => {
  const [row] = await api.admin`
    select (select count(*) from messages where tenant_id = ${tenantId})
      + (select count(*) from unsettled_contents where tenant_id = ${tenantId}) as n`;
  return Number(row?.['n']);
};

const RETRYABLE = ['failed', 'undelivered', 'unknown', 'expired'];
const LARGE = 'x'.repeat(200_000);

describe('a retry of a message', () => {
  test.each(RETRYABLE)(
    'that is %s creates a new message with the same content and options',
    async (status) => {
      const details = {
        externalId: `order-${status}`,
        metadata: { order: 7 },
        tags: ['kept'],
        priority: 'high',
        deliveryGuarantee: 'at_most_once',
      };
      for (const body of [
        { ...LEAST.sms, from: 'Acme', body: `Grüße ${'y'.repeat(200)}`, ...details },
        { ...LEAST.push, ttlSeconds: 5, ...details },
        { ...LEAST.email, bodyHtml: 'z'.repeat(20_000), category: 'otp', ...details },
        { ...LEAST.email, bodyHtml: LARGE, ...details },
        LEAST.whatsapp,
      ]) {
        const id = await ended(status, body);
        const before = await get(api.first, `/v1/messages/${id}`, tenant.key);
        const wakes = api.first.wakes.length;
        const reply = await retry(id);
        expect([reply.status, reply.body.status, reply.body.to]).toEqual([202, 'queued', body.to]);
        expect(reply.body.parentMessageId).toBe(id);
        const child = reply.body.id as string;
        expect(child).not.toBe(id);
        expect(await stored(child)).toEqual({ ...(await stored(id)), unsettled: expect.any(Number) });
        expect(await placeOf(child)).toMatchObject({
          parent_id: id,
          api_key_id: null,
          status: 'queued',
          lives: body.channel === 'email' && 'category' in body ? 600 : 86_400,
        });
        const record = await get(api.first, `/v1/messages/${child}`, tenant.key);
        expect(record.body).toMatchObject({
          id: child,
          parentMessageId: id,
          status: 'queued',
          batchId: null,
          externalId: before.body.externalId,
          attemptCount: 0,
          segments: before.body.segments,
        });
        expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body).toEqual(before.body);
        expect(api.first.wakes.slice(wakes).map((wake) => wake.id)).toEqual([child]);
        const events = await get(api.first, `/v1/messages/${child}/events`, tenant.key);
        expect(events.body.items).toMatchObject([{ type: 'message.queued' }]);
        expect(
          await api.admin`select actor, action, changes from audit_log where target = ${id}`,
        ).toMatchObject([
          {
            actor: developer.userId,
            action: 'message.retried',
            changes: [{ field: 'messageId', from: null, to: child }],
          },
        ]);
      }
    },
  );

  test('is found by parentMessageId', async () => {
    const id = await ended('failed');
    await retry(await ended('failed'));
    const made = [await retry(id), await retry(id)].map(({ body }) => body.id as string);
    const found = await get(api.first, `/v1/messages?parentMessageId=${id.toUpperCase()}`, tenant.key);
    expect(found.body.items.map((item: { id: string }) => item.id).toSorted()).toEqual(made.toSorted());
    const none = await get(api.first, `/v1/messages?parentMessageId=${made[0]}`, tenant.key);
    expect(none.body).toEqual({ items: [], nextCursor: null });
  });

  test("stores its content size for the worker's claim", async () => {
    const body = { ...LEAST.email, bodyHtml: 'z'.repeat(20_000) };
    const { body: child } = await retry(await ended('failed', body));
    expect((await placeOf(child.id))?.['content_bytes']).toBeGreaterThan(20_000);
  });

  test('has the same suppression address key as the original', async () => {
    const keyOf = async (id: string) =>
      (
        await api.admin`
        select encode(l.address_key, 'hex') as key from live_messages l join messages m on m.seq = l.seq
        where m.id = ${id}`
      )[0]?.['key'];
    const body = { ...LEAST.email, to: 'Ann@EXAMPLE.org' };
    const { body: sent } = await send(api.first, tenant.key, body);
    const { body: child } = await retry(await ended('failed', body));
    expect(await keyOf(child.id)).toMatch(/^[0-9a-f]+$/);
    expect(await keyOf(child.id)).toBe(await keyOf(sent.id));
  });

  test('from a batch creates a message without a batchId', async () => {
    const { body: batch } = await request(api.first, 'POST', '/v1/messages/batch', {
      body: { messages: [LEAST.sms, LEAST.email] },
      headers: { 'x-service-key': tenant.key.text },
    });
    const [id] = batch.items.map((item: { id: string }) => item.id) as [string];
    await end(id, 'failed', tenant.key);
    const { body: child } = await retry(id);
    const record = await get(api.first, `/v1/messages/${child.id}`, tenant.key);
    expect(record.body).toMatchObject({ parentMessageId: id, batchId: null });
    const parent = await get(api.first, `/v1/messages/${id}`, tenant.key);
    expect(parent.body).toMatchObject({ parentMessageId: null, batchId: batch.batchId });
  });

  test('in test mode creates a test message, without an account and without daily usage', async () => {
    const fresh = await api.tenant();
    const key = await api.key(fresh.tenantId, { mode: 'test' });
    const id = await ended('failed', LEAST.sms, key);
    const who = await member('developer', fresh);
    const reply = await retry(id, who);
    expect([reply.status, reply.body.test]).toEqual([202, true]);
    expect(await placeOf(reply.body.id)).toMatchObject({ account_id: NO_ACCOUNT, pinned: false });
    expect((await stored(reply.body.id))?.['test']).toBe(true);
    expect((await used(fresh.tenantId))?.['used']).toBe(0);
    expect((await get(api.first, `/v1/messages/${reply.body.id}`, key)).status).toBe(200);
    expect((await get(api.first, `/v1/messages/${reply.body.id}`, fresh.key)).status).toBe(404);
  });

  test('that is itself a retry has that retry as its parent', async () => {
    const first = await ended('failed');
    const { body: second } = await retry(first);
    await end(second.id, 'undelivered', tenant.key);
    const { body: third } = await retry(second.id);
    expect(third.parentMessageId).toBe(second.id);
  });
});

describe('a retry that is refused', () => {
  const OTHERS = ['sent', 'delivered', 'canceled', 'suppressed'];

  test.each(OTHERS)('because the message is %s is 409 and stores nothing', async (status) => {
    for (const body of [LEAST.sms, { ...LEAST.email, bodyHtml: LARGE }]) {
      const id = await ended(status, body);
      const before = await countOf(tenant.tenantId);
      const reply = await retry(id);
      expect([reply.status, reply.body.code]).toEqual([409, 'invalid_state']);
      expect(reply.body.message).toContain(`'${status}'`);
      expect(await countOf(tenant.tenantId)).toBe(before);
      expect(await api.admin`select from audit_log where target = ${id}`).toEqual([]);
    }
  });

  test.each(['queued', 'scheduled', 'held', 'deferred', 'sending'])(
    'because the message is still %s is 409',
    async (status) => {
      const { body } = await send(api.first, tenant.key, LEAST.sms);
      await api.admin`
        update live_messages l set status = ${status} from messages m where m.seq = l.seq and m.id = ${body.id}`;
      const reply = await retry(body.id);
      expect([reply.status, reply.body.code]).toEqual([409, 'invalid_state']);
    },
  );

  test('because the content is deleted is 409, and the message says so', async () => {
    const admin = await member('admin');
    for (const body of [
      LEAST.sms,
      { ...LEAST.email, bodyHtml: LARGE },
      { ...LEAST.sms, contentRetention: 'discard' },
    ]) {
      const id = await ended('failed', body);
      if (!('contentRetention' in body)) {
        await request(api.first, 'DELETE', `/v1/admin/messages/${id}/content`, {
          headers: { authorization: `Bearer ${admin.token}`, 'x-tenant-slug': admin.slug },
        });
      }
      const before = await countOf(tenant.tenantId);
      const reply = await retry(id);
      expect([reply.status, reply.body.code]).toEqual([409, 'invalid_state']);
      expect(reply.body.message).toContain('content has been deleted');
      expect(await countOf(tenant.tenantId)).toBe(before);
    }
  });

  test('for a foreign tenant is 404, for a viewer 403, and for a service key 401', async () => {
    const id = await ended('failed');
    const before = await countOf(tenant.tenantId);
    const stranger = await member('owner', await api.tenant());
    const [theirs, nobodys] = [await retry(id, stranger), await retry(randomUUID(), stranger)];
    expect([theirs.status, nobodys.status]).toEqual([404, 404]);
    expect((await retry(id, await member('viewer'))).body.code).toBe('insufficient_role');
    const byKey = await request(api.first, 'POST', `/v1/admin/messages/${id}/retry`, {
      headers: { 'x-service-key': tenant.key.text },
    });
    expect(byKey.status).toBe(401);
    expect(await countOf(tenant.tenantId)).toBe(before);
  });

  test('of a suspended tenant is 403, also in an api process with an outdated copy', async () => {
    const fresh = await api.tenant();
    const deaf = await api.instance();
    const id = await ended('failed', LEAST.sms, fresh.key, deaf);
    const who = await member('developer', fresh);
    expect((await retry(id, who, { via: deaf })).status).toBe(202);
    await moveSuspension(api.admin, fresh.tenantId, 'billing');
    const before = await countOf(fresh.tenantId);
    const reply = await retry(id, who, { via: deaf });
    expect([reply.status, reply.body.code]).toEqual([403, 'tenant_suspended']);
    expect(await countOf(fresh.tenantId)).toBe(before);
  });

  test('beyond the daily limit or the backlog names the limit; exactly the limit passes', async () => {
    const day = await api.tenant({ messagesPerDay: 4 });
    const id = await ended('failed', LEAST.sms, day.key);
    const who = await member('developer', day);
    const replies = await Promise.all(Array.from({ length: 7 }, () => retry(id, who)));
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(3);
    for (const reply of replies.filter(({ status }) => status !== 202)) {
      expect([reply.status, reply.body.code]).toEqual([429, 'daily_limit_reached']);
      expect(reply.body.limit).toEqual({ name: 'messagesPerDay', value: 4 });
      expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
    }
    expect(await used(day.tenantId)).toEqual({ used: 4, accepted: 4 });

    const backlog = await api.tenant({ backlogMax: 2 });
    const other = await ended('failed', { ...LEAST.email, bodyHtml: LARGE }, backlog.key);
    const whose = await member('developer', backlog);
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push((await retry(other, whose)).body.code ?? 'taken');
    expect(codes).toEqual(['taken', 'taken', 'backlog_full']);
    // The copied content of the refused retry is deleted again.
    await expect
      .poll(
        async () =>
          (await api.admin`select from message_contents where tenant_id = ${backlog.tenantId}`).length,
      )
      .toBe(3);
  });
});

describe('the send rate limit of a key', () => {
  test('is not applied to retries', async () => {
    const fresh = await api.tenant({ sendRequestsPerMinute: 1 });
    const id = await ended('failed', LEAST.sms, fresh.key);
    const who = await member('developer', fresh);
    for (let i = 0; i < 3; i++) expect((await retry(id, who)).status).toBe(202);
    expect((await send(api.first, fresh.key, LEAST.sms)).body.code).toBe('rate_limited');
  });
});

describe('an idempotency key', () => {
  test.each([
    ['small', LEAST.sms],
    ['large', { ...LEAST.email, bodyHtml: LARGE }],
  ])('creates one message from many %s retries, also after the original was delivered', async (_, body) => {
    const fresh = await api.tenant();
    const who = await member('developer', fresh);
    const id = await ended('unknown', body, fresh.key);
    const key = randomUUID();
    const replies = await Promise.all(Array.from({ length: 5 }, () => retry(id, who, { key })));
    expect(replies.map(({ status }) => status)).toEqual([202, 202, 202, 202, 202]);
    expect(new Set(replies.map((reply) => reply.body.id)).size).toBe(1);
    expect(replies.filter(({ headers }) => headers['idempotent-replayed'] === 'true')).toHaveLength(4);
    await api.admin`
      update message_results r set status = 'delivered' from messages m where m.seq = r.seq and m.id = ${id}`;
    const again = await retry(id, who, { key });
    expect([again.status, again.body]).toEqual([202, replies[0]?.body]);
    expect((await used(fresh.tenantId))?.['used']).toBe(2);
    const mismatch = await retry(id, who, { key, body: { providerId: randomUUID() } });
    expect([mismatch.status, mismatch.body.code]).toEqual([409, 'idempotency_mismatch']);
    const elsewhere = await retry(randomUUID(), who, { key });
    expect([elsewhere.status, elsewhere.body.code]).toEqual([409, 'idempotency_mismatch']);
    await expect
      .poll(async () => {
        const stored = await api.admin`select from message_contents where tenant_id = ${fresh.tenantId}`;
        return stored.length;
      })
      .toBe(body === LEAST.sms ? 0 : 2);
  });

  test('of a refused retry can be used again', async () => {
    const id = await ended('sent');
    const key = randomUUID();
    expect((await retry(id, developer, { key })).status).toBe(409);
    await api.admin`
      update message_results r set status = 'undelivered' from messages m where m.seq = r.seq and m.id = ${id}`;
    expect((await retry(id, developer, { key })).status).toBe(202);
  });
});

describe('the account of a retry', () => {
  test('is the named one, and is pinned', async () => {
    const id = await ended('failed');
    const account = await seedAccount(api.admin, tenant.tenantId, { channel: 'sms' });
    const { body: child } = await retry(id, developer, { body: { provider_id: account.toUpperCase() } });
    expect(await placeOf(child.id)).toMatchObject({ account_id: account, pinned_account_id: account });
  });

  test('must belong to the tenant and the channel', async () => {
    const id = await ended('failed');
    const before = await countOf(tenant.tenantId);
    const other = await api.tenant();
    for (const providerId of [
      await seedAccount(api.admin, tenant.tenantId, { channel: 'email' }),
      await seedAccount(api.admin, other.tenantId, { channel: 'sms' }),
      randomUUID(),
    ]) {
      const reply = await retry(id, developer, { body: { providerId } });
      expect([reply.status, reply.body.code]).toEqual([400, 'validation_failed']);
      expect(reply.body.details).toMatchObject([{ field: 'providerId', rule: 'provider' }]);
    }
    expect(await countOf(tenant.tenantId)).toBe(before);
  });

  test('is the one pinned by the original; if that is disabled, another must be named', async () => {
    const account = await seedAccount(api.admin, tenant.tenantId, { channel: 'sms' });
    const instead = await seedAccount(api.admin, tenant.tenantId, { channel: 'sms' });
    const id = await ended('failed', { ...LEAST.sms, providerId: account });
    const { body: child } = await retry(id);
    expect(await placeOf(child.id)).toMatchObject({ account_id: account, pinned_account_id: account });
    await api.admin`update provider_accounts set status = 'disabled' where id = ${account}`;
    const reply = await retry(id);
    expect([reply.status, reply.body.details?.[0].field]).toEqual([400, 'providerId']);
    const { body: other } = await retry(id, developer, { body: { providerId: instead } });
    expect(await placeOf(other.id)).toMatchObject({ account_id: instead });
  });

  test('is required: without a usable account the retry is refused', async () => {
    const fresh = await api.tenant();
    const id = await ended('failed', LEAST.push, fresh.key);
    await api.admin`update provider_accounts set status = 'disabled' where tenant_id = ${fresh.tenantId}`;
    const reply = await retry(id, await member('developer', fresh));
    expect([reply.status, reply.body.code]).toEqual([400, 'provider_not_configured']);
  });
});

test('a retry that commits after its deadline (503) keeps its content and is replayed', async () => {
  const id = await ended('failed', { ...LEAST.email, bodyHtml: LARGE });
  // The commit waits, as for a standby that does not answer.
  await api.admin.unsafe(`create function despatch.wait_at_commit() returns trigger language plpgsql as
    $$ begin perform pg_sleep(7); return null; end $$;
    create constraint trigger wait_at_commit after insert on despatch.audit_log deferrable initially deferred
      for each row when (new.target = '${id}') execute function despatch.wait_at_commit()`);
  try {
    expect(await retry(id, developer, { key: 'slow' })).toMatchObject({ status: 503 });
  } finally {
    await api.admin.unsafe('drop function despatch.wait_at_commit() cascade');
  }
  const again = await retry(id, developer, { key: 'slow' });
  expect([again.status, again.headers['idempotent-replayed']]).toEqual([202, 'true']);
  expect(await stored(again.body.id)).toMatchObject({ content: { html: LARGE } });
});

test('a retry whose copied content was deleted before the commit is refused', async () => {
  const id = await ended('failed', { ...LEAST.email, bodyHtml: LARGE });
  const children = () => api.admin`select from messages where parent_id = ${id}`;
  const reply = await api.withoutUnsettled(() => retry(id));
  expect(reply.status).toBe(503);
  expect(await children()).toHaveLength(0);
  expect((await retry(id)).status).toBe(202);
  expect(await children()).toHaveLength(1);
});
