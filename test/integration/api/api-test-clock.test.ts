import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '#core/domain/text/duration.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
beforeAll(async () => (api = await startTestApi()));
afterAll(() => api[Symbol.asyncDispose]());

const ahead = (ms: number): string => new Date(Date.now() + ms).toISOString();

type Tester = ApiTenant & { readonly testKey: TestKey };
async function tester(): Promise<Tester> {
  const tenant = await api.tenant({ scheduleHorizonDays: 30 });
  return { ...tenant, testKey: await api.key(tenant.tenantId, { mode: 'test' }) };
}
const advance = (key: TestKey, by: unknown) =>
  request(api.first, 'POST', '/v1/messages/test-clock', {
    headers: { 'x-service-key': key.text },
    body: { advance: by },
  });
const isNear = (text: string, at: number): boolean => Math.abs(Date.parse(text) - at) < 10_000;

/** Every stored time for which a message waits. */
async function timers(): Promise<readonly object[]> {
  return api.admin`
    select seq, due_at, next_attempt_at, expires_at, updated_at from live_messages
    union all select seq, due_at, null, null, null from awaited_receipts
    union all select seq, ask_at, until_at, null, null from lookups order by 1, 2`;
}

describe('the test clock', () => {
  test('makes a scheduled message due and keeps its lifetime after sendAt', async () => {
    const { testKey, tenantId } = await tester();
    const message = { ...LEAST.sms, sendAt: ahead(48 * HOUR_MS), ttlSeconds: 600 };
    const { id } = (await send(api.first, testKey, message)).body;
    const later = (await send(api.first, testKey, { ...message, sendAt: ahead(100 * HOUR_MS) })).body.id;
    const before = (await get(api.first, `/v1/messages/${later}`, testKey)).body;
    const reply = await advance(testKey, '72h');
    expect([reply.status, reply.body.moved]).toEqual([200, 2]);
    expect(isNear(reply.body.now, Date.now() + 72 * HOUR_MS)).toBe(true);
    const rows = await api.admin<{ id: string; wait: number; left: number; late: number }[]>`
      select m.id, extract(epoch from l.next_attempt_at - now())::float8 as wait,
        extract(epoch from l.expires_at - l.next_attempt_at)::float8 as left,
        extract(epoch from l.due_at - l.next_attempt_at)::float8 as late
      from live_messages l join messages m using (seq) where l.tenant_id = ${tenantId} order by l.seq`;
    expect(rows.map((row) => [row.id, Math.round(row.left), Math.abs(row.late) < 1])).toEqual([
      [id, 600, true],
      [later, 600, true],
    ]);
    expect(rows[0]?.wait).toBeGreaterThan(-10);
    expect(rows[0]?.wait).toBeLessThanOrEqual(0);
    expect(Math.abs((rows[1]?.wait ?? 0) - 28 * 3_600)).toBeLessThan(10);
    // The stored times moved with the clock, so the api still reports the same times.
    expect((await get(api.first, `/v1/messages/${later}`, testKey)).body).toEqual(before);
    expect(api.first.notices).toContainEqual({ kind: 'clock', notice: { tenantId } });
  });

  test('sends a clock notice to workers, and no other notice, only if a message moved', async () => {
    const { testKey, tenantId } = await tester();
    const noticesOf = () => api.first.notices.filter(({ notice }) => notice.tenantId === tenantId);
    expect((await advance(testKey, '1s')).body.moved).toBe(0);
    expect(noticesOf()).toEqual([]);
    await send(api.first, testKey, { ...LEAST.sms, sendAt: ahead(HOUR_MS) });
    expect((await advance(testKey, '1s')).body.moved).toBe(1);
    expect(noticesOf()).toEqual([{ kind: 'clock', notice: { tenantId } }]);
  });

  test('and a concurrent reschedule are both applied, in lock order', async () => {
    const { testKey, tenantId } = await tester();
    const { id } = (await send(api.first, testKey, { ...LEAST.sms, sendAt: ahead(48 * HOUR_MS) })).body;
    const sendAt = ahead(10 * DAY_MS);
    let moving: Promise<{ status: number }> | undefined;
    await api.admin.begin(async (tx) => {
      await tx`select set_config('app.tenant', ${tenantId}, true)`;
      await tx`select advance_test_clock(${DAY_MS}, 100)`;
      const headers = { 'x-service-key': testKey.text };
      moving = request(api.first, 'PATCH', `/v1/messages/${id}`, { headers, body: { sendAt } });
      await expect.poll(() => lockWaits(api.admin, 'lock_schedule')).toHaveLength(1);
    });
    expect((await moving)?.status).toBe(200);
    const [row] = await api.admin<{ wait: number }[]>`
      select extract(epoch from next_attempt_at - now())::float8 as wait from live_messages where tenant_id = ${tenantId}`;
    expect(Math.abs((row?.wait ?? 0) - (9 * DAY_MS) / 1_000)).toBeLessThan(60);
    const { body } = await get(api.first, `/v1/messages/${id}`, testKey);
    expect(body.scheduledAt).toBe(sendAt);
  });

  test('is the reference for sendAt and expiresAt of new and rescheduled test messages', async () => {
    const { testKey, tenantId } = await tester();
    await advance(testKey, 'P10D');
    const now = (await advance(testKey, 'PT0S')).body.now as string;
    expect(isNear(now, Date.now() + 10 * DAY_MS)).toBe(true);
    const on = (ms: number) => new Date(Date.parse(now) + ms).toISOString();
    const reply = await send(api.first, testKey, {
      ...LEAST.sms,
      sendAt: on(HOUR_MS),
      expiresAt: on(2 * HOUR_MS),
    });
    expect(reply.body).toMatchObject({ status: 'scheduled', scheduledAt: on(HOUR_MS) });
    expect((await get(api.first, `/v1/messages/${reply.body.id}`, testKey)).body).toMatchObject({
      scheduledAt: on(HOUR_MS),
      nextAttemptAt: on(HOUR_MS),
      expiresAt: on(2 * HOUR_MS),
    });
    const past = await send(api.first, testKey, { ...LEAST.sms, sendAt: ahead(5 * DAY_MS) });
    expect(past.body).toMatchObject({ status: 'queued', warnings: [{ field: 'sendAt' }] });
    const clock = /of the test clock, which is at \d{4}-\d\d-\d\dT[\d:.]+Z/;
    expect(past.body.warnings[0].message).toMatch(clock);
    const expired = await send(api.first, testKey, { ...LEAST.sms, expiresAt: ahead(5 * DAY_MS) });
    expect(expired.body.details).toEqual([
      { field: 'expiresAt', rule: 'min', message: expect.stringMatching(clock) },
    ]);
    const longPast = await send(api.first, testKey, { ...LEAST.sms, sendAt: '0001-01-01T00:00:00Z' });
    expect(longPast.body).toMatchObject({ status: 'queued', warnings: [{ field: 'sendAt' }] });
    const far = await send(api.first, testKey, { ...LEAST.sms, sendAt: on(31 * DAY_MS) });
    expect(far.body.details).toMatchObject([{ field: 'sendAt', rule: 'max' }]);
    const batch = await request(api.first, 'POST', '/v1/messages/batch', {
      headers: { 'x-service-key': testKey.text },
      body: { messages: [LEAST.sms, { ...LEAST.sms, sendAt: on(HOUR_MS) }] },
    });
    expect(batch.body.items).toMatchObject([{ status: 'queued' }, { scheduledAt: on(HOUR_MS) }]);
    const moved = await request(api.first, 'PATCH', `/v1/messages/${reply.body.id}`, {
      headers: { 'x-service-key': testKey.text },
      body: { sendAt: on(3 * HOUR_MS) },
    });
    expect(moved.body).toMatchObject({
      scheduledAt: on(3 * HOUR_MS),
      nextAttemptAt: on(3 * HOUR_MS),
      expiresAt: on(4 * HOUR_MS),
    });
    const waits = await api.admin<{ hours: number }[]>`
      select round(extract(epoch from due_at - now()) / 3600)::int as hours from live_messages
      where tenant_id = ${tenantId} and status = 'scheduled' order by seq`;
    expect(waits.map(({ hours }) => hours)).toEqual([3, 1]);
  });

  test('makes a retry due, and expires a message whose next attempt is not before its expiry', async () => {
    const { testKey, tenantId } = await tester();
    const ids: string[] = [];
    for (let i = 0; i < 2; i += 1) ids.push((await send(api.first, testKey, LEAST.sms)).body.id);
    const [retried = '', outlived = ''] = ids;
    await api.admin`
      update live_messages l set status = 'deferred', attempt = 1, worker = 0, expires_at = now() + interval '2 hours',
        next_attempt_at = now() + case when m.id = ${outlived} then interval '2 hours' else interval '30 minutes' end,
        due_at = now() + interval '30 minutes'
      from messages m where m.seq = l.seq and l.tenant_id = ${tenantId}`;
    await api.admin`update live_messages l set next_attempt_at = expires_at from messages m where m.seq = l.seq and m.id = ${outlived}`;
    expect((await advance(testKey, 'PT3H')).body.moved).toBe(2);
    const rows = await api.admin`
      select m.id, l.next_attempt_at <= now() as due, l.expires_at <= now() as expired
      from live_messages l join messages m using (seq) where l.tenant_id = ${tenantId} order by l.seq`;
    expect(rows).toEqual([
      { id: retried, due: true, expired: false },
      { id: outlived, due: true, expired: true },
    ]);
  });

  test('never moves timers of live messages or of another tenant, and is 403 for a live key', async () => {
    const [own, other] = [await tester(), await tester()];
    const later = { ...LEAST.sms, sendAt: ahead(DAY_MS) };
    for (const key of [own.key, other.key, other.testKey]) {
      await send(api.first, key, later);
      await send(api.first, key, LEAST.sms);
    }
    // A live message through a simulator, one that waits for a retry, and one that waits for a receipt.
    const simulated = await api.admin<{ id: string }[]>`
      insert into provider_accounts (id, tenant_id, provider, channel, label, config_public)
      values (gen_random_uuid(), ${own.tenantId}, 'simulator-sms', 'sms', 'sim', '{}') returning id`;
    await send(api.first, own.key, { ...later, providerId: simulated[0]?.id });
    await api.admin`update live_messages set status = 'deferred', next_attempt_at = now() + interval '1 hour'
      where tenant_id = ${own.tenantId} and status = 'queued'`;
    await api.admin`
      insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
      select m.seq, m.purge_on, m.tenant_id, m.test, now() + interval '3 days' from messages m`;
    await api.admin`
      insert into lookups (seq, purge_on, tenant_id, account_id, since, ask_at, until_at)
      select m.seq, m.purge_on, m.tenant_id, gen_random_uuid(), now(), now() + interval '1 hour', now() + interval '3 days'
      from messages m where not m.test`;
    const before = await timers();
    expect(before.length).toBeGreaterThan(15);
    expect((await advance(own.testKey, 'P30D')).body.moved).toBe(0);
    expect(await timers()).toEqual(before);

    expect(await advance(own.key, '72h')).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
    expect((await send(api.first, own.key, later)).body.scheduledAt).toBe(later.sendAt);
    const clocks = await api.admin`
      select test_clock_ms as ms from tenants where id = any (${[own.tenantId, other.tenantId]}::uuid[]) order by 1`;
    expect(clocks).toEqual([{ ms: 0 }, { ms: 30 * DAY_MS }]);

    // Receipts awaited for the tenant's own test messages do move.
    const { id } = (await send(api.first, own.testKey, LEAST.sms)).body;
    await api.admin`
      insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
      select m.seq, m.purge_on, m.tenant_id, m.test, now() + interval '3 days' from messages m where m.id = ${id}`;
    expect((await advance(own.testKey, 'P3D')).body.moved).toBe(1);
    const [awaited] = await api.admin<{ due: boolean }[]>`
      select a.due_at <= now() as due from awaited_receipts a join messages m using (seq) where m.id = ${id}`;
    expect(awaited?.due).toBe(true);
  });

  test('counts a message that waits for a receipt only if its wait becomes shorter', async () => {
    const { testKey } = await tester();
    const { id } = (await send(api.first, testKey, LEAST.sms)).body;
    await api.admin`
      insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
      select m.seq, m.purge_on, m.tenant_id, m.test, now() + interval '3 days' from messages m where m.id = ${id}`;
    const moved: number[] = [];
    for (const by of ['PT0S', '1h', '72h', '1h']) moved.push((await advance(testKey, by)).body.moved);
    expect(moved).toEqual([0, 1, 1, 0]);
  });

  test('moves at most 10,000 messages; with more it is 409 and moves nothing', async () => {
    const { testKey, tenantId } = await tester();
    await send(api.first, testKey, { ...LEAST.sms, sendAt: ahead(DAY_MS) });
    await api.admin`
      insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, next_attempt_at, status, priority, channel, test,
        pinned, expires_at, updated_at)
      select 800000000 + n, l.purge_on, l.tenant_id, l.account_id, l.due_at, l.next_attempt_at, 'scheduled', l.priority, l.channel,
        l.test, l.pinned, l.expires_at, l.updated_at
      from live_messages l, generate_series(1, 10000) n where l.tenant_id = ${tenantId}`;
    const before = await timers();
    expect(await advance(testKey, '1h')).toMatchObject({ status: 409, body: { code: 'invalid_state' } });
    expect(await timers()).toEqual(before);
    const [clock] = await api.admin`select test_clock_ms as ms from tenants where id = ${tenantId}`;
    expect(clock).toEqual({ ms: 0 });
    await api.admin`delete from live_messages where seq = 800000001`;
    expect((await advance(testKey, '1h')).body.moved).toBe(10_000);
  });

  test.each(['', 'soon', '-1h', 'P400D', 72, null])('refuses to advance by %j with 400', async (by) => {
    const { testKey, tenantId } = await tester();
    expect((await advance(testKey, by)).status).toBe(400);
    const [clock] = await api.admin`select test_clock_ms as ms from tenants where id = ${tenantId}`;
    expect(clock).toEqual({ ms: 0 });
  });

  test('can be at most ten years ahead', async () => {
    const { testKey } = await tester();
    for (let i = 0; i < 10; i += 1) expect((await advance(testKey, 'P366D')).status).toBe(200);
    expect((await advance(testKey, '1s')).body.details).toMatchObject([{ field: 'advance', rule: 'max' }]);
    expect((await advance(testKey, 'PT0S')).status).toBe(200);
  });
});
