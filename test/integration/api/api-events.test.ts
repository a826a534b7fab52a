import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decideReceipts } from '#core/domain/receipts/decide-receipts.ts';
import { EVENT_SCHEMAS, type EventEnvelope } from '#core/domain/webhooks/event-schemas.ts';
import { createEventIds } from '#core/domain/webhooks/event-id.ts';
import { FEED_EVENT_TYPES } from '#core/domain/webhooks/feed-event.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import { loadMessageIdKey } from '#core/store/messages/message-places.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { get, LEAST, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { ADDRESS_KEYS, moveSuspension } from '#test/support/seed.ts';
import type { TestKey } from '#test/support/service-keys.ts';

let api: TestApi;
let store: WorkerStore;
beforeAll(async () => {
  api = await startTestApi();
  store = workerStore(api.database.open('worker', 2), 10_000, ADDRESS_KEYS);
});
afterAll(() => api[Symbol.asyncDispose]());

type Feed = { readonly items: EventEnvelope[]; readonly nextCursor: string | null; readonly lastSeq: number };
type Reader = ApiTenant & { readonly reader: TestKey; readonly person: { token: string; slug: string } };

async function setup(): Promise<Reader> {
  const tenant = await api.tenant();
  const reader = await api.key(tenant.tenantId, { scopes: ['events:read'] });
  const { token } = await api.member(tenant, 'viewer');
  return { ...tenant, reader, person: { token, slug: tenant.slug } };
}

async function accept(key: TestKey, more: object = {}): Promise<string> {
  const { body, status } = await send(api.first, key, { ...LEAST.sms, ...more });
  expect(status).toBe(202);
  return body.id;
}

/** Claims every waiting message of the tenant and completes it with this outcome. */
async function attempt({ tenantId }: ApiTenant, outcome: AttemptOutcome): Promise<void> {
  await api.admin`update live_messages set next_attempt_at = null, due_at = now() where tenant_id = ${tenantId}`;
  const seqs = await api.admin<
    { seq: number }[]
  >`select seq from live_messages where tenant_id = ${tenantId}`;
  const claimed = await store.claim(
    seqs.map(({ seq }) => seq),
    { worker: 'w1', leaseMs: 60_000 },
  );
  await store.complete(claimed.map((message) => completionOf(message, outcome, { receiptsExpected: true })));
}

async function report(id: string, receipt: string | null, engagement: string | null = null): Promise<void> {
  await api.admin`
    insert into receipts (tenant_id, message_seq, purge_on, receipt, engagement, provider_status, report_key, apply_at)
    select tenant_id, seq, purge_on, ${receipt}, ${engagement}, 'word', gen_random_uuid()::text, now() from messages where id = ${id}`;
  await store.applyReceipts(100, decideReceipts);
}

async function number(): Promise<void> {
  while ((await store.numberChanges(100, 0)).outcome === 'more');
}

async function feed(who: TestKey | { token: string; slug: string }, query = ''): Promise<Feed> {
  const path = 'text' in who ? '/v1/events' : '/v1/admin/events';
  const { status, body } = await get(api.first, `${path}${query}`, who);
  expect({ status, code: body.code }).toEqual({ status: 200, code: undefined });
  return body as Feed;
}

const typesOf = ({ items }: Feed) => items.map(({ type }) => type);
const seqsOf = ({ items }: Feed) => items.map(({ data }) => data.seq);

const ACCEPTED: AttemptOutcome = { kind: 'accepted', providerMessageId: 'p-1' };
const TRANSIENT: AttemptOutcome = {
  kind: 'rejected_transient',
  failure: { class: 'provider_unavailable', code: 'http_503', providerMessage: 'busy' },
};

describe('the feed', () => {
  test('lists all events of a message in order, with the same ids as its history', async () => {
    const tenant = await setup();
    const id = await accept(tenant.key, { externalId: 'order-1', metadata: { a: 1 }, tags: ['t'] });
    await attempt(tenant, TRANSIENT);
    await attempt(tenant, ACCEPTED);
    await report(id, 'sent');
    await report(id, 'delivered', 'read');
    await report(id, null, 'clicked');
    expect(await feed(tenant.reader)).toEqual({ items: [], nextCursor: null, lastSeq: 0 });
    await number();
    const all = await feed(tenant.reader);
    expect(typesOf(all)).toEqual([
      'message.queued',
      'message.deferred',
      'message.sent',
      'message.delivered',
      'message.engagement',
      'message.engagement',
    ]);
    expect(seqsOf(all)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(all).toMatchObject({ nextCursor: null, lastSeq: 6 });
    expect(all.items.map(({ data }) => ('sequence' in data ? data.sequence : 0))).toEqual([1, 2, 3, 4, 5, 6]);
    expect(all.items[0]?.data).toMatchObject({
      messageId: id,
      externalId: 'order-1',
      to: '+15550000001',
      channel: 'sms',
      test: false,
      metadata: { a: 1 },
      tags: ['t'],
      attempt: null,
      providerId: null,
    });
    expect(all.items[1]?.data).toMatchObject({
      attempt: 1,
      provider: 'simulator-sms',
      failure: { class: 'provider_unavailable', code: 'http_503', providerMessage: 'busy' },
    });
    expect(all.items[3]?.data).toMatchObject({ attempt: 2, providerStatus: 'word' });
    expect(all.items[5]?.data).toMatchObject({ engagement: 'clicked' });
    const { body: history } = await get(api.first, `/v1/messages/${id}/events`, tenant.key);
    const known = new Map<string, string>(
      history.items.map((one: { id: string; type: string }) => [one.id, one.type]),
    );
    for (const { id: eventId, type } of all.items) expect(known.get(eventId)).toBe(type);
    expect(new Set(all.items.map((one) => one.id)).size).toBe(6);
    const ids = createEventIds(await loadMessageIdKey(api.admin));
    const places = all.items.map((one) => ids.decode(one.id));
    const stored = await api.admin`select seq, purge_on from messages where id = ${id}`;
    expect(places.map((place) => [place?.seq, place?.purgeOn])).toEqual(
      Array.from({ length: 6 }, () => [stored[0]?.['seq'], stored[0]?.['purge_on']]),
    );
    expect(places[0]?.number).toBe(0);
    expect(JSON.stringify(all)).not.toContain('Hello');
    expect(await feed(tenant.person)).toEqual(all);
  });

  test('continues after afterSeq and after a cursor', async () => {
    const tenant = await setup();
    for (let n = 0; n < 7; n += 1) await accept(tenant.key);
    await number();
    expect(seqsOf(await feed(tenant.reader, '?afterSeq=5'))).toEqual([6, 7]);
    expect(await feed(tenant.reader, '?afterSeq=7')).toEqual({ items: [], nextCursor: null, lastSeq: 7 });
    const seen: number[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page: Feed = await feed(tenant.reader, `?limit=3${cursor && `&cursor=${cursor}`}`);
      seen.push(...seqsOf(page));
      expect(page.lastSeq).toBe(seen.at(-1));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  test('leads a reader that is ahead of it, as after a failover that lost events, back to its end', async () => {
    const tenant = await setup();
    await accept(tenant.key);
    await number();
    expect(await feed(tenant.reader, '?afterSeq=99')).toEqual({ items: [], nextCursor: null, lastSeq: 1 });
    await accept(tenant.key);
    await number();
    expect(seqsOf(await feed(tenant.reader, '?afterSeq=1'))).toEqual([2]);
  });

  test('is filtered by type, type prefix and time, and lastSeq is the last number searched', async () => {
    const tenant = await setup();
    await accept(tenant.key);
    await attempt(tenant, ACCEPTED);
    await accept(tenant.key);
    await moveSuspension(api.admin, tenant.tenantId, 'billing');
    await moveSuspension(api.admin, tenant.tenantId, null);
    await number();
    const sent = await feed(tenant.reader, '?type=message.sent');
    expect(typesOf(sent)).toEqual(['message.sent']);
    expect(sent).toMatchObject({ lastSeq: 5, nextCursor: null });
    expect(typesOf(await feed(tenant.reader, '?type=tenant.*'))).toEqual([
      'tenant.suspended',
      'tenant.resumed',
    ]);
    expect(await feed(tenant.reader, '?type=message.*&afterSeq=3')).toMatchObject({ items: [], lastSeq: 5 });
    const ids = createEventIds(await loadMessageIdKey(api.admin));
    const moves = (await feed(tenant.reader, '?type=tenant.*')).items.map((one) => ids.decode(one.id));
    const stored = await api.admin`
      select 0 as seq, purge_on as "purgeOn", event_seq as number from tenant_events
      where tenant_id = ${tenant.tenantId} order by event_seq`;
    expect(moves).toEqual([...stored]);
    const since = (await feed(tenant.reader)).items[3]?.timestamp ?? '';
    const late = await feed(tenant.reader, `?since=${encodeURIComponent(since)}`);
    expect(seqsOf(late)).toEqual([4, 5]);
    // They were accepted by an api whose clock is a minute ahead.
    await api.admin`update feed set numbered_at = numbered_at - interval '1 minute' where tenant_id = ${tenant.tenantId}`;
    expect(seqsOf(await feed(tenant.reader, `?since=${encodeURIComponent(since)}`))).toEqual([4, 5]);
    expect(await feed(tenant.reader, '?since=2199-01-01T00:00:00Z')).toMatchObject({ items: [], lastSeq: 5 });
    await number();
    const { status } = await get(api.first, '/v1/events?type=message.read', tenant.reader);
    expect(status).toBe(400);
  });

  test("shows a key only events of its mode, with the tenant's sequence numbers", async () => {
    const tenant = await setup();
    const testKey = await api.key(tenant.tenantId, {
      mode: 'test',
      scopes: ['events:read', 'messages:send'],
    });
    await accept(tenant.key);
    const test = await accept(testKey);
    await moveSuspension(api.admin, tenant.tenantId, 'manual');
    await moveSuspension(api.admin, tenant.tenantId, null);
    await number();
    expect(await feed(testKey)).toMatchObject({
      items: [{ type: 'message.queued', data: { seq: 2, test: true, messageId: test } }],
      lastSeq: 4,
    });
    expect(seqsOf(await feed(tenant.reader))).toEqual([1, 3, 4]);
    expect(seqsOf(await feed(tenant.person))).toEqual([1, 2, 3, 4]);
  });

  test('omits events of purged messages', async () => {
    const tenant = await setup();
    const id = await accept(tenant.key);
    await accept(tenant.key);
    await number();
    await api.admin`delete from messages where id = ${id}`;
    expect(await feed(tenant.reader)).toMatchObject({ items: [{ data: { seq: 2 } }], lastSeq: 2 });
  });

  test("is a tenant's own: it shows no events of another tenant and refuses its cursors", async () => {
    const [tenant, other] = [await setup(), await setup()];
    for (let n = 0; n < 3; n += 1) await accept(other.key);
    await number();
    expect(await feed(tenant.reader)).toEqual({ items: [], nextCursor: null, lastSeq: 0 });
    const { nextCursor } = await feed(other.reader, '?limit=1');
    const { status, body } = await get(api.first, `/v1/events?limit=1&cursor=${nextCursor}`, tenant.reader);
    expect([status, body.code]).toEqual([400, 'invalid_cursor']);
  });

  test('requires the scope events:read', async () => {
    const tenant = await setup();
    const { status, body } = await get(api.first, '/v1/events', tenant.key);
    expect([status, body.code]).toEqual([403, 'insufficient_scope']);
    expect((await get(api.first, '/v1/admin/events', tenant.reader)).status).toBe(401);
  });

  test('reads a run of thousands of events in bounded pages', async () => {
    const tenant = await setup();
    await accept(tenant.key);
    await number();
    // One run of 6,000 keys of the same message.
    await api.admin`
      insert into feed (first_seq, last_seq, numbered_at, tenant_id, purge_on, seqs, numbers)
      select 2, 6001, now(), tenant_id, purge_on, array_fill(seqs[1], array[6000]), array_fill(0::bigint, array[6000])
      from feed where tenant_id = ${tenant.tenantId}`;
    const none = await feed(tenant.reader, '?type=tenant.suspended');
    expect(none.items).toEqual([]);
    expect(none.nextCursor).not.toBeNull();
    expect(none.lastSeq).toBeLessThanOrEqual(5_000);
    expect(seqsOf(await feed(tenant.reader, '?afterSeq=5990&limit=5'))).toEqual([
      5991, 5992, 5993, 5994, 5995,
    ]);
  });
});

test('the event types are listed, each with the schema of its envelope', async () => {
  const tenant = await setup();
  const { status, body } = await get(api.first, '/v1/admin/event-types', tenant.person);
  expect(status).toBe(200);
  expect(body.items.map(({ type }: { type: string }) => type)).toEqual([...FEED_EVENT_TYPES, 'test.ping']);
  expect(body.items[0].schema).toMatchObject({ properties: { type: { const: 'message.scheduled' } } });
  expect(JSON.stringify(body)).not.toContain('$ref');
  expect(Object.keys(EVENT_SCHEMAS)).toEqual([...FEED_EVENT_TYPES]);
});
