import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideCancel } from '#core/domain/sending/decide-cancel.ts';
import { LIVE_STATES, MESSAGE_STATES, type MessageState } from '#core/domain/message/message-state.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { moveSuspension } from '#test/support/seed.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

type Credential = TestKey | { readonly token: string; readonly slug: string };

function cancel(id: string, credential: Credential = tenant.key) {
  const headers: Record<string, string> =
    'text' in credential
      ? { 'x-service-key': credential.text }
      : { authorization: `Bearer ${credential.token}`, 'x-tenant-slug': credential.slug };
  return request(api.first, 'POST', `/v1/messages/${id}/cancel`, { headers });
}

async function member(role: 'viewer' | 'developer') {
  return { ...(await api.member(tenant, role)), slug: tenant.slug };
}

/** Returns a message of the tenant in this state. */
async function messageIn(state: MessageState, key = tenant.key): Promise<string> {
  const { body } = await send(api.first, key, { ...LEAST.sms, contentRetention: 'discard' });
  await api.admin`
    update live_messages l set status = ${state}, attempt = ${state === 'queued' ? 0 : 1}, worker = 0, provider = 'twilio',
      started_at = now(), lease_until = now() + interval '1 minute', reason = ${state === 'deferred' ? 'retry' : null},
      failure = ${state === 'deferred' ? api.admin.json({ class: 'provider_unavailable', code: 'http_503' }) : null},
      held_from = ${state === 'held' ? 'deferred' : null}
    from messages m where m.seq = l.seq and m.id = ${body.id}`;
  if ((LIVE_STATES as readonly MessageState[]).includes(state)) return body.id;
  await api.admin`
    with gone as (delete from live_messages l using messages m where m.seq = l.seq and m.id = ${body.id} returning l.*)
    insert into message_results (seq, purge_on, tenant_id, status, attempt, duplicate_risk, final, expires_at, updated_at)
    select seq, purge_on, tenant_id, status, 1, false, false, expires_at, now() from gone`;
  return body.id;
}

async function rowsOf(id: string) {
  const [row] = await api.admin`
    select m.content, s.status, (select count(*)::int from live_messages l where l.seq = m.seq) as live,
      (select count(*)::int from message_results r where r.seq = m.seq) as results
    from messages m join message_states s using (seq, purge_on) where m.id = ${id}`;
  return row as { content: unknown; status: MessageState; live: number; results: number };
}

const backlog = async (): Promise<number> => {
  const [row] = await api.admin<{ n: number }[]>`select (backlog_total).n from (
    select (select coalesce(sum(accepted), 0) from tenant_usage where tenant_id = ${tenant.tenantId})
      - (select coalesce(sum(finished), 0) from tenant_progress where tenant_id = ${tenant.tenantId}) as n) backlog_total`;
  return Number(row?.n);
};

describe('a waiting message', () => {
  test.each(MESSAGE_STATES.filter((state) => decideCancel(state) === 'cancel'))(
    'that is %s is canceled: it cannot be claimed, keeps its record, and has an event and no content',
    async (state) => {
      const id = await messageIn(state);
      const before = await backlog();
      const reply = await cancel(id);
      expect(reply.status).toBe(200);
      expect(reply.body).toMatchObject({
        id,
        status: 'canceled',
        statusReason: null,
        finality: 'final',
        failure: null,
        nextAttemptAt: null,
        completedAt: expect.any(String),
      });
      expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body).toEqual(reply.body);
      expect(await rowsOf(id)).toEqual({ content: null, status: 'canceled', live: 0, results: 1 });
      const { body: history } = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
      expect(history.items[0]).toMatchObject({ type: 'message.canceled', source: 'api', applied: true });
      expect(await backlog()).toBe(before - 1);
      // The commit adds the event to `changes`, from which the feed is filled.
      const named = await api.admin`
        select from changes c, unnest(c.seqs, c.numbers) as u (seq, number)
        join event_log e on e.message_seq = u.seq and e.event_seq = u.number
        join messages m on m.seq = u.seq where m.id = ${id} and e.type = 'message.canceled'`;
      expect(named).toHaveLength(1);
    },
  );

  test('is canceled once by concurrent requests', async () => {
    const id = await messageIn('queued');
    const before = await backlog();
    const replies = await Promise.all(Array.from({ length: 12 }, () => cancel(id)));
    expect(new Set(replies.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(replies[0]?.status).toBe(200);
    const { body } = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
    expect(body.items.map(({ type }: { type: string }) => type)).toEqual([
      'message.canceled',
      'message.queued',
    ]);
    expect(await backlog()).toBe(before - 1);
  });

  test('frees its backlog slot when canceled, but still counts toward the daily limit', async () => {
    const small = await api.tenant({ backlogMax: 1, messagesPerDay: 2 });
    const first = await send(api.first, small.key, LEAST.sms);
    expect((await send(api.first, small.key, LEAST.sms)).body.code).toBe('backlog_full');
    expect((await cancel(first.body.id, small.key)).status).toBe(200);
    const second = await send(api.first, small.key, LEAST.sms);
    expect(second.status).toBe(202);
    await cancel(second.body.id, small.key);
    expect((await send(api.first, small.key, LEAST.sms)).body.code).toBe('daily_limit_reached');
  });

  test('stays canceled when its idempotency key is replayed', async () => {
    const headers = { 'idempotency-key': randomUUID() };
    const first = await send(api.first, tenant.key, LEAST.sms, headers);
    await cancel(first.body.id);
    const again = await send(api.first, tenant.key, LEAST.sms, headers);
    expect([again.status, again.body, again.headers['idempotent-replayed']]).toEqual([
      202,
      first.body,
      'true',
    ]);
    expect((await rowsOf(first.body.id)).status).toBe('canceled');
  });

  test('increments the cancel metric of its channel once', async () => {
    const count = async () =>
      Number(
        /despatch_messages_canceled_total\{channel="sms",by="id"\} (\d+)/.exec(
          await api.first.metrics.registry.metrics(),
        )?.[1],
      );
    const id = await messageIn('queued');
    const before = await count();
    await cancel(id);
    await cancel(id);
    expect(await count()).toBe(before + 1);
  });
});

describe('a message that can no longer be canceled', () => {
  test.each(
    MESSAGE_STATES.filter(
      (state) => state !== 'canceled' && state !== 'scheduled' && decideCancel(state) !== 'cancel',
    ),
  )('because it is %s answers 409 not_cancelable and stays unchanged', async (state) => {
    const id = await messageIn(state);
    const before = await rowsOf(id);
    const reply = await cancel(id);
    expect([reply.status, reply.body.code]).toEqual([409, 'not_cancelable']);
    expect(reply.body.message).toContain(`'${state}'`);
    expect(await rowsOf(id)).toEqual(before);
  });
});

describe('permission to cancel', () => {
  test("another tenant's message is 404, like an unknown id", async () => {
    const other = await api.tenant();
    const id = await messageIn('queued');
    const stranger = await cancel(id, other.key);
    const nobody = await cancel(randomUUID(), other.key);
    expect(stranger.status).toBe(404);
    expect(stranger.body.code).toBe(nobody.body.code);
    expect((await rowsOf(id)).status).toBe('queued');
    expect((await cancel('not-an-id')).status).toBe(404);
  });

  test('a key cancels only messages of its mode; a user cancels those of both modes', async () => {
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    const live = await messageIn('queued');
    const tested = await messageIn('queued', testKey);
    expect((await cancel(live, testKey)).status).toBe(404);
    expect((await cancel(tested)).status).toBe(404);
    expect((await cancel(tested, testKey)).status).toBe(200);
    const developer = await member('developer');
    expect((await cancel(live, developer)).status).toBe(200);
    expect((await cancel(await messageIn('queued', testKey), developer)).status).toBe(200);
  });

  test('a developer may cancel and is audited; a viewer and a read-only key may not', async () => {
    const id = await messageIn('queued');
    const reader = await api.key(tenant.tenantId, { scopes: ['messages:read'] });
    expect((await cancel(id, reader)).body.code).toBe('insufficient_scope');
    expect((await cancel(id, await member('viewer'))).body.code).toBe('insufficient_role');
    const developer = await member('developer');
    for (let i = 0; i < 2; i++) expect((await cancel(id, developer)).status).toBe(200);
    const entries = await api.admin`select actor, action from audit_log where target = ${id}`;
    expect(entries).toEqual([{ actor: developer.userId, action: 'message.canceled' }]);
    const byKey = await messageIn('queued');
    await cancel(byKey);
    expect(await api.admin`select from audit_log where target = ${byKey}`).toEqual([]);
  });

  test('keys and users of a suspended tenant are refused with 403', async () => {
    const suspended = await api.tenant();
    const { body } = await send(api.first, suspended.key, LEAST.sms);
    const developer = { ...(await api.member(suspended, 'developer')), slug: suspended.slug };
    await moveSuspension(api.admin, suspended.tenantId, 'billing');
    api.first.notice('tenant', { tenantId: suspended.tenantId });
    for (const credential of [suspended.key, developer]) {
      const reply = await cancel(body.id, credential);
      expect([reply.status, reply.body.code]).toEqual([403, 'tenant_suspended']);
    }
    expect((await rowsOf(body.id)).status).toBe('queued');
  });

  test('a key that is rate limited may still cancel', async () => {
    const key = await api.key(tenant.tenantId, { rateLimitRpm: 1 });
    const { body } = await send(api.first, key, LEAST.sms);
    for (let i = 0; i < 3; i++) await send(api.first, key, { channel: 'sms' });
    expect((await send(api.first, key, LEAST.sms)).status).toBe(429);
    expect((await cancel(body.id, key)).status).toBe(200);
  });
});
