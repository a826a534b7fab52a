import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import {
  ENDPOINTS_PATH,
  endpointLimits,
  faultsOf,
  startWebhookApi,
  type WebhookApi,
} from '#test/support/webhook-api.ts';

let hooks: WebhookApi;
let api: WebhookApi['api'];
let tenant: WebhookApi['tenant'];
let createFor: WebhookApi['createFor'];
let auditOf: WebhookApi['auditOf'];

beforeAll(async () => {
  hooks = await startWebhookApi();
  ({ api, tenant, createFor, auditOf } = hooks);
});
afterAll(async () => {
  await hooks[Symbol.asyncDispose]();
});

const DAY = '2099-01-05';
type Call = { attempt: number; succeeded?: boolean; status?: number | null; error?: string | null };

describe('deliveries', () => {
  /** Creates a tenant with one message for each number of an endpoint's feed, and no attempt for any of them. */
  async function told(count: number): Promise<{
    own: TestTenant;
    id: string;
    messages: { id: string; seq: number }[];
    call: (method: string, url: string, body?: unknown) => Promise<Reply>;
  }> {
    const own = await api.tenant(endpointLimits(5));
    const { id } = await createFor(own);
    const messages = await api.admin<{ id: string; seq: number }[]>`
      insert into messages (seq, id, tenant_id, channel, recipient, category, priority, enqueued_at, purge_on, test,
        delivery_guarantee, content_retention)
      select nextval('message_blocks') * 1024 + 1, gen_random_uuid(), ${own.id}, 'sms', '+15550000001', 'transactional', 1,
        now() - make_interval(mins => ${count}::integer - n), ${DAY}, false, 'at_least_once', 'retain'
      from generate_series(1, ${count}::integer) n returning id, seq`;
    for (const [index, { seq }] of messages.entries()) {
      await api.admin`
        insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
        values (${index + 1}, ${index + 1}, ${index + 1}, now() - make_interval(mins => ${count - index - 1}), ${id}, ${own.id}, ${DAY},
          ${[seq]}, '{0}')`;
      await api.admin`
        insert into feed (first_seq, last_seq, numbered_at, tenant_id, purge_on, seqs, numbers)
        values (${index + 1}, ${index + 1}, now(), ${own.id}, ${DAY}, ${[seq]}, '{0}')`;
    }
    await api.admin`
      insert into endpoint_heads (endpoint_id, feed_seq, last_seq, matched_at, tenant_id)
      values (${id}, ${count}, ${count}, now(), ${own.id})`;
    return { own, id, messages: [...messages], call: (...args) => api.callAs('admin', own, ...args) };
  }

  const called = async ({ own, id }: { own: TestTenant; id: string }, seq: number, ...calls: Call[]) => {
    for (const { attempt, succeeded = false, status = 500, error = null } of calls) {
      await api.admin`
        insert into delivery_attempts (endpoint_id, seq, attempt, purge_on, tenant_id, at, duration_ms, status, error, answer, succeeded)
        values (${id}, ${seq}, ${attempt}, ${DAY}, ${own.id}, now(), ${attempt * 10}, ${status}, ${error},
          ${status === null ? null : `answer ${attempt}`}, ${succeeded})`;
    }
  };
  const due = (
    { own, id }: { own: TestTenant; id: string },
    first: number,
    { last = first, attempts = 0, dueAt = 'now', claim = null }: DueOptions = {},
  ) => api.admin`
    insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, due_at, claim)
    values (${id}, ${own.id}, ${first}, ${last}, ${DAY}, ${attempts}, ${dueAt}::text::timestamptz, ${claim})`;
  type DueOptions = { last?: number; attempts?: number; dueAt?: string; claim?: number | null };
  const dueOf = (id: string) => api.admin<DueRow[]>`
    select first_seq::integer as seq, last_seq::integer as last, attempts, manual, due_at <= clock_timestamp() as now, claim
    from due_deliveries where endpoint_id = ${id} order by first_seq, id`;
  type DueRow = {
    seq: number;
    last: number;
    attempts: number;
    manual: boolean;
    now: boolean;
    claim: number | null;
  };
  const later = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
  const seqsOf = ({ body }: Reply) => body.items.map(({ seq }: { seq: number }) => seq);

  test('are listed newest first, each with its status and its last attempt', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 }, { attempt: 2, status: 204, succeeded: true });
    await called(to, 2, { attempt: 1, status: null, error: 'timeout' });
    await called(to, 3, { attempt: 1 });
    await due(to, 3, { attempts: 1, dueAt: later(5) });
    await due(to, 4, { last: 5, dueAt: later(1), claim: 7 });
    await due(to, 6);
    const listed = await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`);
    expect(listed.status).toBe(200);
    const items = listed.body.items as Record<string, unknown>[];
    expect(items.map(({ seq, status, attempts }) => [seq, status, attempts])).toEqual([
      [6, 'pending', 0],
      [5, 'in_flight', 0],
      [4, 'in_flight', 0],
      [3, 'retrying', 1],
      [2, 'exhausted', 1],
      [1, 'succeeded', 2],
    ]);
    expect(items[5]).toEqual({
      id: expect.any(String),
      endpointId: to.id,
      eventId: expect.any(String),
      eventType: 'message.queued',
      seq: 1,
      status: 'succeeded',
      attempts: 2,
      nextAttemptAt: null,
      lastAttemptAt: expect.any(String),
      durationMs: 20,
      responseStatus: 204,
      error: null,
      responseBody: 'answer 2',
    });
    expect(items[4]).toMatchObject({ responseStatus: null, error: 'timeout', responseBody: null });
    expect(Date.parse(items[3]?.['nextAttemptAt'] as string)).toBeGreaterThan(Date.now() + 200_000);
    expect(items[1]).toMatchObject({ nextAttemptAt: null, lastAttemptAt: null, durationMs: null });
    const events = await to.call('GET', '/v1/admin/events');
    expect(items.map(({ eventId }) => eventId).toReversed()).toEqual(
      events.body.items.map((event: { id: string }) => event.id),
    );
    expect((await to.call('GET', `${ENDPOINTS_PATH}/${to.id}`)).body).toMatchObject({
      lastSeq: 6,
      pending: 4,
    });

    await to.call('POST', `${ENDPOINTS_PATH}/${to.id}/pause`);
    const paused = await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries?status=retrying`);
    expect(paused.body.items).toMatchObject([{ seq: 3, nextAttemptAt: null }]);
  });

  test('that are purged are omitted without an empty page for each range of them', async () => {
    const to = await told(4);
    /** Reads all pages. A page may be short when its read reaches the time limit, but it reads at least one stretch. */
    const all = async (query: string) => {
      const seen: { id: string; seq: number }[] = [];
      let pages = 0;
      for (let cursor = ''; pages === 0 || cursor !== ''; pages += 1) {
        const { body } = await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries?${query}${cursor}`);
        seen.push(...body.items);
        cursor = body.nextCursor === null ? '' : `&cursor=${body.nextCursor}`;
      }
      expect(pages).toBeLessThan(10);
      return seen;
    };
    const seqs = async (query = 'limit=50') => (await all(query)).map(({ seq }) => seq);
    // Leaves a large gap below the newest number, as after a plan with a shorter retention purged the rows between.
    await api.admin`
      update endpoint_feed set first_seq = 1000000, last_seq = 1000000 where endpoint_id = ${to.id} and last_seq = 4`;
    await api.admin`update endpoint_heads set last_seq = 1000000 where endpoint_id = ${to.id}`;
    expect(await seqs()).toEqual([1_000_000, 3, 2, 1]);
    expect(await seqs('limit=1&status=exhausted')).toEqual([1_000_000, 3, 2, 1]);
    const [delivery] = await all('limit=1');
    await api.admin`delete from endpoint_feed where endpoint_id = ${to.id} and last_seq >= 3`;
    expect(await seqs()).toEqual([2, 1]);
    expect((await to.call('GET', `/v1/admin/deliveries/${delivery?.id}`)).status).toBe(404);
  });

  test('are filtered by status, type and time, and paged with cursors bound to the filter', async () => {
    const to = await told(7);
    for (const seq of [1, 3, 5]) await called(to, seq, { attempt: 1 });
    for (const seq of [2, 4, 6]) await called(to, seq, { attempt: 1, succeeded: true, status: 200 });
    await due(to, 7);
    const list = (query: string) => to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries?${query}`);
    expect(seqsOf(await list('status=exhausted'))).toEqual([5, 3, 1]);
    expect(seqsOf(await list('status=in_flight'))).toEqual([]);
    expect(seqsOf(await list('type=message.*'))).toEqual([7, 6, 5, 4, 3, 2, 1]);
    expect(seqsOf(await list('type=provider.*'))).toEqual([]);
    const since = new Date(Date.now() - 2.5 * 60_000).toISOString();
    expect(seqsOf(await list(`since=${since}`))).toEqual([7, 6, 5]);
    expect(seqsOf(await list(`since=${later(5)}`))).toEqual([]);
    expect(seqsOf(await list(`until=${since}`))).toEqual([4, 3, 2, 1]);
    expect(seqsOf(await list(`until=${since}&status=exhausted`))).toEqual([3, 1]);
    for (const [query, wanted] of [
      ['limit=3', [7, 6, 5, 4, 3, 2, 1]],
      ['limit=2&status=exhausted', [5, 3, 1]],
      [`limit=2&since=${since}`, [7, 6, 5]],
      [`limit=2&until=${since}`, [4, 3, 2, 1]],
    ] as const) {
      const seen: number[] = [];
      let cursor = '';
      do {
        const page = await list(`${query}${cursor}`);
        seen.push(...seqsOf(page));
        cursor = page.body.nextCursor === null ? '' : `&cursor=${page.body.nextCursor}`;
      } while (cursor !== '');
      expect(seen).toEqual(wanted);
    }
    const { nextCursor } = (await list('limit=2')).body;
    expect((await list(`limit=2&status=pending&cursor=${nextCursor}`)).body.code).toBe('invalid_cursor');
    expect((await list('status=lost')).status).toBe(400);
  });

  test('of purged events are not shown', async () => {
    const to = await told(3);
    await api.admin`delete from messages where id = ${to.messages[1]?.id ?? ''}`;
    expect(seqsOf(await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`))).toEqual([3, 1]);
    expect(
      seqsOf(await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries?limit=1&status=exhausted`)),
    ).toEqual([3]);
  });

  test('can be read one by one with each attempt, by their own tenant only', async () => {
    const to = await told(2);
    await called(
      to,
      2,
      { attempt: 1, status: null, error: 'tls' },
      { attempt: 2 },
      { attempt: 3, succeeded: true },
    );
    const [delivery] = (await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`)).body.items;
    const { status, body } = await to.call('GET', `/v1/admin/deliveries/${delivery.id.toUpperCase()}`);
    expect(status).toBe(200);
    const { attemptLog, ...rest } = body;
    expect(rest).toEqual(delivery);
    expect(attemptLog).toMatchObject([
      { number: 1, durationMs: 10, responseStatus: null, error: 'tls', responseBody: null },
      { number: 2, durationMs: 20, responseStatus: 500, error: null, responseBody: 'answer 2' },
      { number: 3, durationMs: 30, responseStatus: 500, responseBody: 'answer 3' },
    ]);
    for (const [of, id] of [
      [tenant, delivery.id],
      [to.own, randomUUID()],
      [to.own, to.id],
    ] as const) {
      expect((await api.callAs('owner', of, 'GET', `/v1/admin/deliveries/${id}`)).status).toBe(404);
      expect((await api.callAs('owner', of, 'POST', `/v1/admin/deliveries/${id}/redeliver`)).status).toBe(
        404,
      );
    }
    await to.call('DELETE', `${ENDPOINTS_PATH}/${to.id}`);
    expect((await to.call('GET', `/v1/admin/deliveries/${delivery.id}`)).status).toBe(404);
  });

  test('are redelivered once; a waiting one is due immediately, and a claimed one is 409', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 }, { attempt: 2, succeeded: true });
    await called(to, 2, { attempt: 1 });
    await called(to, 3, { attempt: 1 });
    await due(to, 3, { attempts: 1, dueAt: later(60) });
    await due(to, 4, { last: 5 });
    await due(to, 6, { dueAt: later(1), claim: 9 });
    const { items } = (await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`)).body;
    const idOf = (seq: number): string => items.find((one: { seq: number }) => one.seq === seq).id;
    const again = (seq: number) => to.call('POST', `/v1/admin/deliveries/${idOf(seq)}/redeliver`);
    const first = await again(1);
    expect([first.status, first.body]).toMatchObject([202, { seq: 1, status: 'pending', attempts: 2 }]);
    // The first delivery had succeeded before; this one never has.
    expect((await again(2)).body).toMatchObject({ seq: 2, status: 'retrying', attempts: 1 });
    await Promise.all([again(1), again(1), again(2), again(2)]);
    expect(await again(3)).toMatchObject({ status: 202 });
    expect(await again(5)).toMatchObject({ status: 202, body: { status: 'pending' } });
    expect(faultsOf(await again(6))).toEqual([409, 'invalid_state']);
    expect(await dueOf(to.id)).toEqual([
      { seq: 1, last: 1, attempts: 2, manual: true, now: true, claim: null },
      { seq: 2, last: 2, attempts: 1, manual: true, now: true, claim: null },
      { seq: 3, last: 3, attempts: 1, manual: false, now: true, claim: null },
      { seq: 4, last: 5, attempts: 0, manual: false, now: true, claim: null },
      { seq: 6, last: 6, attempts: 0, manual: false, now: false, claim: 9 },
    ]);
    expect(api.notices).toContainEqual({
      kind: 'endpoint',
      notice: { tenantId: to.own.id, id: to.id, changed: 'due' },
    });
    expect((await auditOf(to.id)).at(-1)).toMatchObject({ action: 'webhook_endpoint.redelivered' });
  });

  test('have at most 1,000 attempts', async () => {
    const to = await told(2);
    await called(to, 1, { attempt: 999 }, { attempt: 1_000 });
    await called(to, 2, { attempt: 999 });
    const { items } = (await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`)).body;
    const again = (seq: number) =>
      to.call(
        'POST',
        `/v1/admin/deliveries/${items.find((one: { seq: number }) => one.seq === seq).id}/redeliver`,
      );
    expect(faultsOf(await again(1))).toEqual([409, 'invalid_state']);
    const recovered = await to.call('POST', `${ENDPOINTS_PATH}/${to.id}/recover`, {
      since: '2026-01-01T00:00:00Z',
    });
    expect(recovered.body).toMatchObject({ recovered: 1 });
    expect((await dueOf(to.id)).map(({ seq }) => seq)).toEqual([2]);
  });

  test('are not duplicated if a worker records an outcome during a redelivery request', async () => {
    const to = await told(1);
    await called(to, 1, { attempt: 1 });
    await due(to, 1, { attempts: 1, dueAt: later(60) });
    const [delivery] = (await to.call('GET', `${ENDPOINTS_PATH}/${to.id}/deliveries`)).body.items;
    let again: Promise<Reply> | undefined;
    await api.admin.begin(async (tx) => {
      // Replaces the row, as a worker does when it records an outcome.
      await tx`delete from due_deliveries where endpoint_id = ${to.id}`;
      await tx`insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, attempts, due_at)
        values (${to.id}, ${to.own.id}, 1, 1, ${DAY}, 2, now() + interval '5 minutes')`;
      again = to.call('POST', `/v1/admin/deliveries/${delivery.id}/redeliver`);
      await new Promise((resolve) => setTimeout(resolve, 300));
    });
    expect((await again)?.status).toBe(202);
    expect(await dueOf(to.id)).toMatchObject([{ seq: 1, attempts: 2, manual: false, now: true }]);
  });

  test('that wait for a retry are due immediately when the endpoint is resumed', async () => {
    const to = await told(6);
    await called(to, 1, { attempt: 1 });
    await due(to, 1, { attempts: 1, dueAt: later(300) });
    await due(to, 2, { dueAt: later(1), claim: 9 });
    await due(to, 3, { dueAt: 'infinity' });
    await due(to, 4, { last: 6 });
    const move = (name: string) => to.call('POST', `${ENDPOINTS_PATH}/${to.id}/${name}`);
    await move('pause');
    const waiting = await dueOf(to.id);
    expect(waiting.map(({ now }) => now)).toEqual([false, false, false, true]);
    expect((await move('resume')).body).toMatchObject({ status: 'active', pending: 6 });
    const [first, ...others] = await dueOf(to.id);
    expect(first).toEqual({ ...waiting[0], now: true });
    expect(others).toEqual(waiting.slice(1));
  });

  test('that were exhausted are recovered once each, also for a paused endpoint', async () => {
    const to = await told(8);
    for (const seq of [1, 2, 3, 6]) await called(to, seq, { attempt: 1 }, { attempt: 2 });
    await called(to, 4, { attempt: 1 }, { attempt: 2, succeeded: true });
    await due(to, 5);
    await due(to, 7, { last: 8, dueAt: later(1), claim: 3 });
    await to.call('POST', `${ENDPOINTS_PATH}/${to.id}/pause`);
    const recover = (body: object) => to.call('POST', `${ENDPOINTS_PATH}/${to.id}/recover`, body);
    const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
    const part = await recover({ since: minutesAgo(6.5), until: minutesAgo(5.5) });
    expect([part.status, part.body]).toEqual([202, { recovered: 1, more: false, nextSince: null }]);
    expect((await dueOf(to.id)).map(({ seq }) => seq)).toEqual([2, 5, 7]);
    const rest = await recover({ since: minutesAgo(60) });
    expect(rest.body).toEqual({ recovered: 3, more: false, nextSince: null });
    const found = await dueOf(to.id);
    expect(found.map(({ seq }) => seq)).toEqual([1, 2, 3, 5, 6, 7]);
    expect(found[0]).toEqual({ seq: 1, last: 1, attempts: 2, manual: true, now: true, claim: null });
    expect((await recover({ since: minutesAgo(60) })).body.recovered).toBe(0);
    expect((await recover({ since: later(5) })).body.recovered).toBe(0);
    expect(faultsOf(await recover({ since: later(5), until: later(4) }))).toEqual([
      400,
      'validation_failed',
      'until: min',
    ]);
    expect(faultsOf(await recover({}))).toEqual([400, 'missing_field', 'since: required']);
  });

  test('are recovered in steps of 10,000', async () => {
    const to = await told(1);
    await api.admin`
      insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      select n * 500 + 2, n * 500 + 501, n + 2, now() + make_interval(secs => n), ${to.id}, ${to.own.id}, ${DAY},
        array_fill(1, array[500]), array_fill(0, array[500]) from generate_series(0, 23) n`;
    const since = new Date(Date.now() - 600_000).toISOString();
    const recover = async (from: string) =>
      (await to.call('POST', `${ENDPOINTS_PATH}/${to.id}/recover`, { since: from })).body;
    const first = await recover(since);
    expect(first).toMatchObject({ recovered: 10_000, more: true });
    expect(await recover(first.nextSince)).toEqual({ recovered: 2_001, more: false, nextSince: null });
    expect((await dueOf(to.id)).length).toBe(12_001);
  });
});
