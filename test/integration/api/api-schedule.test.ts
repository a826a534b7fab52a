import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DAY_MS, MINUTE_MS } from '#core/domain/text/duration.ts';
import { purgeDay } from '#core/domain/storage/purge-day.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';

let api: TestApi;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant({ scheduleHorizonDays: 30, batchMessagesMax: 10 });
});
afterAll(() => api[Symbol.asyncDispose]());

const ahead = (ms: number): string => new Date(Date.now() + ms).toISOString();
const post = (body: object, headers: Record<string, string> = {}) =>
  send(api.first, tenant.key, { ...LEAST.sms, ...body }, headers);

async function rowsOf(id: string) {
  const [row] = await api.admin<Record<string, unknown>[]>`
    select l.status, l.priority, l.due_at, l.next_attempt_at, l.expires_at, m.scheduled_at, m.purge_on::text as purge_on
    from messages m join live_messages l using (seq, purge_on) where m.id = ${id}`;
  return row;
}

describe('a message with sendAt', () => {
  test('is stored as scheduled, with that status in its 202, record and history, and wakes no worker', async () => {
    const woken = api.first.wakes.length;
    const sendAt = ahead(5 * MINUTE_MS);
    const reply = await post({ sendAt });
    expect([reply.status, reply.body]).toEqual([
      202,
      expect.objectContaining({ status: 'scheduled', scheduledAt: sendAt }),
    ]);
    expect(reply.body.warnings).toBeUndefined();
    const { id } = reply.body;
    expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body).toMatchObject({
      status: 'scheduled',
      scheduledAt: sendAt,
      nextAttemptAt: sendAt,
      expiresAt: new Date(Date.parse(sendAt) + DAY_MS).toISOString(),
      attemptCount: 0,
      finality: 'pending',
      priority: 'normal',
    });
    const at = new Date(sendAt);
    expect(await rowsOf(id)).toMatchObject({
      status: 'scheduled',
      due_at: at,
      next_attempt_at: at,
      scheduled_at: at,
    });
    const events = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
    expect(events.body.items.map(({ type }: { type: string }) => type)).toEqual(['message.scheduled']);
    expect(api.first.wakes).toHaveLength(woken);
  });

  test('may use another time zone and snake_case', async () => {
    const at = Math.ceil(Date.now() / 1_000) * 1_000 + 3_600_000;
    const local = new Date(at + 7_200_000).toISOString().replace('Z', '+02:00');
    const { body } = await post({ send_at: local });
    expect(body).toMatchObject({ status: 'scheduled', scheduledAt: new Date(at).toISOString() });
  });

  test.each([
    [{ ttlSeconds: 60 }, MINUTE_MS],
    [{ category: 'otp' }, 10 * MINUTE_MS],
    [{}, DAY_MS],
  ])('with %j counts its lifetime from sendAt', async (options, lifetimeMs) => {
    const sendAt = ahead(20 * DAY_MS);
    const { body } = await post({ ...options, sendAt });
    const { expires_at } = (await rowsOf(body.id)) as { expires_at: Date };
    expect(expires_at.getTime() - Date.parse(sendAt)).toBe(lifetimeMs);
  });

  test('must expire after sendAt and within the retention that starts at sendAt', async () => {
    const sendAt = ahead(2 * DAY_MS);
    const refused = async (expiresAt: string) => (await post({ sendAt, expiresAt })).body.details;
    expect(await refused(ahead(DAY_MS))).toEqual([
      { field: 'expiresAt', rule: 'min', message: 'Must lie after sendAt' },
    ]);
    expect(await refused(ahead(33 * DAY_MS))).toMatchObject([{ field: 'expiresAt', rule: 'max' }]);
    expect((await post({ sendAt, expiresAt: ahead(31 * DAY_MS) })).status).toBe(202);
  });

  test("is refused if sendAt is invalid or beyond the plan's scheduleHorizonDays", async () => {
    for (const sendAt of [ahead(30 * DAY_MS + MINUTE_MS), '9999-12-31T23:59:59Z']) {
      const reply = await post({ sendAt });
      expect([reply.status, reply.body.details]).toEqual([
        400,
        [
          {
            field: 'sendAt',
            rule: 'max',
            message: "Must lie within 30 days from now: limit 'scheduleHorizonDays'",
          },
        ],
      ]);
    }
    expect((await post({ sendAt: ahead(30 * DAY_MS - MINUTE_MS) })).status).toBe(202);
    for (const sendAt of ['tomorrow', '2030-01-01T00:00:00', 1_900_000_000]) {
      expect((await post({ sendAt })).body.details[0]).toMatchObject({ field: 'sendAt' });
    }
  });

  test('is sent immediately if sendAt is past, with a warning unless it passed a moment ago', async () => {
    const [now, past] = [await post({ sendAt: ahead(-1_000) }), await post({ sendAt: ahead(-DAY_MS) })];
    expect([now.body.status, now.body.scheduledAt, now.body.warnings]).toEqual([
      'queued',
      undefined,
      undefined,
    ]);
    expect(past.body).toMatchObject({
      status: 'queued',
      warnings: [{ field: 'sendAt', message: 'Lies in the past: the message is sent at once' }],
    });
    const record = (await get(api.first, `/v1/messages/${past.body.id}`, tenant.key)).body;
    expect([record.status, record.scheduledAt, record.nextAttemptAt]).toEqual(['queued', null, null]);
  });

  test('has a purge day a week after the end of the retention that starts at sendAt', async () => {
    for (const days of [1, 10, 29]) {
      const sendAt = ahead(days * DAY_MS);
      const { body } = await post({ sendAt });
      expect((await rowsOf(body.id))?.['purge_on']).toBe(purgeDay(Date.parse(sendAt) + 7 * DAY_MS, 30));
    }
  });

  test('counts toward the daily limit of the day on which it was accepted', async () => {
    const small = await api.tenant({ messagesPerDay: 1 });
    const body = { ...LEAST.sms, sendAt: ahead(3 * DAY_MS) };
    expect((await send(api.first, small.key, body)).status).toBe(202);
    expect((await send(api.first, small.key, body)).body.code).toBe('daily_limit_reached');
  });

  test('is replayed unchanged after sendAt has passed', async () => {
    const body = { sendAt: ahead(500) };
    const key = { 'idempotency-key': randomUUID() };
    const first = await post(body, key);
    expect(first.body.status).toBe('scheduled');
    await expect.poll(() => Date.now()).toBeGreaterThan(Date.parse(body.sendAt));
    const again = await post(body, key);
    expect([again.body, again.headers['idempotent-replayed']]).toEqual([first.body, 'true']);
  });

  test('can be canceled by its id and by a filter', async () => {
    const byId = (await post({ sendAt: ahead(DAY_MS) })).body.id as string;
    const tag = randomUUID();
    const byTag = (await post({ sendAt: ahead(DAY_MS), tags: [tag] })).body.id as string;
    const headers = { 'x-service-key': tenant.key.text };
    const one = await request(api.first, 'POST', `/v1/messages/${byId}/cancel`, { headers });
    expect(one.body).toMatchObject({ status: 'canceled', statusReason: null, nextAttemptAt: null });
    expect(one.body.scheduledAt).not.toBeNull();
    const many = await request(api.first, 'POST', '/v1/messages/cancel', {
      headers,
      body: { filter: { tag } },
    });
    expect(many.body).toEqual({ canceled: 1, alreadySending: 0, final: 0, more: false });
    expect((await get(api.first, `/v1/messages/${byTag}`, tenant.key)).body.status).toBe('canceled');
  });

  test('is listed by status=scheduled', async () => {
    const own = await api.tenant();
    const { body } = await send(api.first, own.key, { ...LEAST.sms, sendAt: ahead(DAY_MS) });
    await send(api.first, own.key, LEAST.sms);
    const list = await get(api.first, '/v1/messages?status=scheduled', own.key);
    expect(list.body.items.map(({ id }: { id: string }) => id)).toEqual([body.id]);
  });
});

test('messages of a batch have their own sendAt, and only due ones wake a worker', async () => {
  const woken = api.first.wakes.length;
  const sendAt = ahead(DAY_MS);
  const reply = await request(api.first, 'POST', '/v1/messages/batch', {
    headers: { 'x-service-key': tenant.key.text },
    body: {
      messages: [
        { ...LEAST.sms, sendAt },
        LEAST.sms,
        { ...LEAST.sms, sendAt: ahead(31 * DAY_MS) },
        { ...LEAST.sms, sendAt, priority: 'high' },
      ],
    },
  });
  expect(reply.body.items).toMatchObject([
    { status: 'scheduled', scheduledAt: sendAt },
    { status: 'queued' },
    { error: { details: [{ field: 'sendAt', rule: 'max' }] } },
    { status: 'scheduled' },
  ]);
  expect(api.first.wakes.length - woken).toBe(1);
});

describe('rescheduling a message', () => {
  type Credential = Parameters<typeof get>[2];
  const patch = (id: string, sendAt: unknown, credential: Credential = tenant.key) =>
    request(api.first, 'PATCH', `/v1/messages/${id}`, {
      headers:
        'text' in credential
          ? { 'x-service-key': credential.text }
          : { authorization: `Bearer ${credential.token}`, 'x-tenant-slug': credential.slug },
      body: { sendAt },
    });
  const planned = async (ms: number, body: object = {}): Promise<string> =>
    (await post({ ...body, sendAt: ahead(ms) })).body.id as string;
  const member = async (role: 'viewer' | 'developer') => ({
    ...(await api.member(tenant, role)),
    slug: tenant.slug,
  });

  test('updates its record, row and history, and moves the expiry', async () => {
    const id = await planned(DAY_MS, { ttlSeconds: 600 });
    for (const sendAt of [ahead(2 * DAY_MS), ahead(3_600_000)]) {
      const reply = await patch(id, sendAt);
      expect([reply.status, reply.body]).toEqual([
        200,
        expect.objectContaining({
          id,
          status: 'scheduled',
          scheduledAt: sendAt,
          nextAttemptAt: sendAt,
          expiresAt: new Date(Date.parse(sendAt) + 600_000).toISOString(),
        }),
      ]);
      expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body).toEqual(reply.body);
      const at = new Date(sendAt);
      expect(await rowsOf(id)).toMatchObject({ due_at: at, next_attempt_at: at, scheduled_at: at });
    }
    const events = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
    expect(events.body.items.map(({ type }: { type: string }) => type)).toEqual([
      'message.rescheduled',
      'message.rescheduled',
      'message.scheduled',
    ]);
  });

  test('to the same time changes nothing, and to a past time makes it due now', async () => {
    const id = await planned(DAY_MS);
    const { scheduledAt, updatedAt } = (await get(api.first, `/v1/messages/${id}`, tenant.key)).body;
    expect((await patch(id, scheduledAt)).body).toMatchObject({ scheduledAt, updatedAt });
    const before = Date.now();
    const { body } = await patch(id, ahead(-DAY_MS));
    expect(Math.abs(Date.parse(body.scheduledAt) - before)).toBeLessThan(5_000);
    expect(body.status).toBe('scheduled');
    // A worker may already have claimed it.
    expect((await patch(id, ahead(DAY_MS))).body).toMatchObject({
      code: 'invalid_state',
      message: 'The time of this message has come',
    });
  });

  test('is allowed a hundred times at most, which bounds the event history', async () => {
    const id = await planned(DAY_MS);
    await api.admin`
      insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
      select m.seq, m.purge_on, m.tenant_id, 'message.rescheduled', 'api', now()
      from messages m, generate_series(1, 99) where m.id = ${id}`;
    expect((await patch(id, ahead(2 * DAY_MS))).status).toBe(200);
    const { scheduledAt } = (await get(api.first, `/v1/messages/${id}`, tenant.key)).body;
    expect(await patch(id, ahead(3 * DAY_MS))).toMatchObject({
      status: 409,
      body: { code: 'invalid_state', message: expect.stringContaining('100 times') },
    });
    expect((await patch(id, scheduledAt)).body).toMatchObject({ scheduledAt });
  });

  test('is limited by scheduleHorizonDays and by the purge day of the record', async () => {
    const id = await planned(3_600_000);
    const refused = async (ms: number) => {
      const reply = await patch(id, ahead(ms));
      return [reply.status, reply.body.details?.[0]?.field, reply.body.details?.[0]?.rule];
    };
    expect(await refused(31 * DAY_MS)).toEqual([400, 'sendAt', 'max']);
    expect(await refused(20 * DAY_MS)).toEqual([400, 'sendAt', 'max']);
    expect((await patch(id, ahead(7 * DAY_MS))).status).toBe(200);
    for (const sendAt of [null, 'soon', undefined]) expect((await patch(id, sendAt)).status).toBe(400);
  });

  test.each([
    { change: 'an upgrade', before: 30, after: 60 },
    { change: 'a downgrade', before: 90, after: 30 },
  ])('follows the retention of its acceptance after $change of the plan', async ({ before, after }) => {
    const own = await api.tenant({ scheduleHorizonDays: 90, retentionDays: before });
    const reply = await send(api.first, own.key, {
      ...LEAST.sms,
      sendAt: ahead(DAY_MS),
      ttlSeconds: before * 86_400,
    });
    const { id } = reply.body;
    await api.admin`update tenant_limits set limits = jsonb_set(limits, '{retentionDays}', to_jsonb(${after}::int))
      where tenant_id = ${own.tenantId}`;
    api.first.notice('tenant', { tenantId: own.tenantId });
    expect((await patch(id, ahead(DAY_MS + 3_600_000), own.key)).status).toBe(200);
    expect((await patch(id, ahead(8 * DAY_MS - MINUTE_MS), own.key)).status).toBe(200);
    const message = expect.stringContaining(`not be kept for ${before} days`);
    expect(await patch(id, ahead(16 * DAY_MS), own.key)).toMatchObject({
      status: 400,
      body: { details: [{ field: 'sendAt', rule: 'max', message }] },
    });
  });

  test.each(['queued', 'held', 'deferred', 'sending'])(
    'is refused while the message is %s',
    async (state) => {
      const id = await planned(DAY_MS);
      await api.admin`update live_messages l set status = ${state} from messages m where m.seq = l.seq and m.id = ${id}`;
      const reply = await patch(id, ahead(2 * DAY_MS));
      expect([reply.status, reply.body.code]).toEqual([409, 'invalid_state']);
    },
  );

  test('is 409 for a canceled message and 404 for a foreign, other-mode or unknown one', async () => {
    const id = await planned(DAY_MS);
    const headers = { 'x-service-key': tenant.key.text };
    await request(api.first, 'POST', `/v1/messages/${id}/cancel`, { headers });
    expect((await patch(id, ahead(DAY_MS))).body.code).toBe('invalid_state');
    const other = await api.tenant();
    const theirs = (await send(api.first, other.key, { ...LEAST.sms, sendAt: ahead(DAY_MS) })).body
      .id as string;
    const testKey = await api.key(tenant.tenantId, { mode: 'test' });
    expect((await patch(theirs, ahead(DAY_MS))).status).toBe(404);
    expect((await patch(await planned(DAY_MS), ahead(DAY_MS), testKey)).status).toBe(404);
    expect((await patch(randomUUID(), ahead(DAY_MS))).status).toBe(404);
    const rows = await api.admin<{ moved: boolean }[]>`
      select exists (select from event_log e where e.message_seq = m.seq) as moved from messages m where m.id = ${theirs}`;
    expect(rows).toEqual([{ moved: false }]);
  });

  test('needs a developer, who is audited, or a key with the send scope', async () => {
    const id = await planned(DAY_MS);
    const reads = await api.key(tenant.tenantId, { scopes: ['messages:read'] });
    expect((await patch(id, ahead(2 * DAY_MS), reads)).body.code).toBe('insufficient_scope');
    expect((await patch(id, ahead(2 * DAY_MS), await member('viewer'))).body.code).toBe('insufficient_role');
    const developer = await member('developer');
    const sendAt = ahead(2 * DAY_MS);
    expect((await patch(id, sendAt, developer)).status).toBe(200);
    const entries = await api.admin`
      select actor, changes from audit_log where action = 'message.rescheduled' and target = ${id}`;
    expect(entries).toEqual([
      {
        actor: developer.userId,
        changes: [{ field: 'sendAt', from: expect.any(String) as string, to: sendAt }],
      },
    ]);
  });

  test('by a key has its own rate limit, as high as the send rate limit', async () => {
    const own = await api.tenant({ sendRequestsPerMinute: 3 });
    const { body } = await send(api.first, own.key, { ...LEAST.sms, sendAt: ahead(MINUTE_MS) });
    const move = (minutes: number) =>
      request(api.first, 'PATCH', `/v1/messages/${body.id}`, {
        headers: { 'x-service-key': own.key.text },
        body: { sendAt: ahead(minutes * MINUTE_MS) },
      });
    const statuses = [];
    for (const minutes of [2, 3, 4, 5, 6]) statuses.push((await move(minutes)).status);
    expect(statuses).toEqual([200, 200, 200, 429, 429]);
    expect((await move(7)).body).toMatchObject({ code: 'rate_limited', limit: { value: 3 } });
    expect((await send(api.first, own.key, LEAST.sms)).status).toBe(202);
  });

  test('waits for a row lock and is 409 if the message was canceled during the wait', async () => {
    const id = await planned(DAY_MS);
    let moving: Promise<unknown> | undefined;
    const sendAt = ahead(2 * DAY_MS);
    await api.admin.begin(async (tx) => {
      await tx`select from move_messages(array(select seq from messages where id = ${id}), 'canceled', null)`;
      moving = patch(id, sendAt);
      await expect.poll(() => lockWaits(api.admin, 'lock_schedule')).toHaveLength(1);
    });
    expect(await moving).toMatchObject({ status: 409, body: { code: 'invalid_state' } });
    expect((await get(api.first, `/v1/messages/${id}`, tenant.key)).body.status).toBe('canceled');
  });
});
