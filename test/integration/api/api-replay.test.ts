import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventEnvelope } from '#core/domain/webhooks/event-schemas.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { matchesEndpoint } from '#core/domain/webhooks/webhook-endpoint.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
import { webhookStore, type WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { ADDRESS_KEYS, moveSuspension } from '#test/support/seed.ts';

let api: TestApi;
let store: WorkerStore;
let webhooks: WebhookStore;
beforeAll(async () => {
  api = await startTestApi();
  const worker = api.database.open('worker', 2);
  store = workerStore(worker, 10_000, ADDRESS_KEYS);
  webhooks = webhookStore(worker, (work) => work, createIdLoader(store.messageIdKey));
});
afterAll(() => api[Symbol.asyncDispose]());

type Admin = ApiTenant & { readonly person: { readonly token: string; readonly slug: string } };

async function setup(): Promise<Admin> {
  const tenant = await api.tenant();
  const { token } = await api.member(tenant, 'admin');
  return { ...tenant, person: { token, slug: tenant.slug } };
}

async function accept({ key }: ApiTenant): Promise<string> {
  const { body, status } = await send(api.first, key, LEAST.sms);
  expect(status).toBe(202);
  return body.id;
}

async function number(): Promise<void> {
  while ((await store.numberChanges(100, 0)).outcome === 'more');
}

async function match({ tenantId }: ApiTenant): Promise<void> {
  await number();
  const terms = { match: matchesEndpoint, claimsMax: 0, tenantClaimsMax: 0, leaseMs: 60_000, busy: [] };
  while ((await webhooks.matchEvents([tenantId], terms)).behind.length > 0);
}

async function endpoint({ tenantId }: ApiTenant, eventTypes: readonly string[]): Promise<string> {
  const id = randomUUID();
  await api.admin`
    insert into webhook_endpoints (id, tenant_id, url, event_types, secret, matched_to)
    values (${id}, ${tenantId}, 'https://example.com/events', ${[...eventTypes]}, 'ciphertext',
      coalesce((select max(last_seq) from feed where tenant_id = ${tenantId}), 0))`;
  return id;
}

async function events({ person }: Admin, query = ''): Promise<EventEnvelope[]> {
  const { status, body } = await get(api.first, `/v1/admin/events${query}`, person);
  expect(status).toBe(200);
  return body.items;
}

function replay({ person }: Admin, eventId: string, endpointId: string) {
  return request(api.first, 'POST', `/v1/admin/events/${eventId}/replay`, {
    headers: { authorization: `Bearer ${person.token}`, 'x-tenant-slug': person.slug },
    body: { endpointId },
  });
}

async function deliveryOf(tenant: Admin, eventId: string, endpointId: string) {
  const { status, body } = await replay(tenant, eventId, endpointId);
  expect([status, body.code]).toEqual([202, undefined]);
  const shown = await get(api.first, `/v1/admin/deliveries/${body.deliveryId}`, tenant.person);
  expect(shown.status).toBe(200);
  return shown.body;
}

const dueOf = (endpointId: string) => api.admin<{ first: number; last: number; manual: boolean }[]>`
  select first_seq as first, last_seq as last, manual from due_deliveries where endpoint_id = ${endpointId} order by first_seq`;

/** Completes the attempt under way as accepted by the provider. */
async function attempt({ tenantId }: ApiTenant): Promise<void> {
  await api.admin`update live_messages set next_attempt_at = null, due_at = now() where tenant_id = ${tenantId}`;
  const seqs = await api.admin<
    { seq: number }[]
  >`select seq from live_messages where tenant_id = ${tenantId}`;
  const claimed = await store.claim(
    seqs.map(({ seq }) => seq),
    { worker: 'w1', leaseMs: 60_000 },
  );
  const accepted = { kind: 'accepted', providerMessageId: 'p-1' } as const;
  await store.complete(claimed.map((message) => completionOf(message, accepted, { receiptsExpected: true })));
}

test("replaying an event that the endpoint's filters excluded delivers it once, under the next number", async () => {
  const tenant = await setup();
  await accept(tenant);
  await attempt(tenant);
  await moveSuspension(api.admin, tenant.tenantId, 'manual');
  await moveSuspension(api.admin, tenant.tenantId, null);
  await number();
  const id = await endpoint(tenant, ['message.failed']);
  const all = await events(tenant);
  expect(all.map(({ type }) => type)).toEqual([
    'message.queued',
    'message.sent',
    'tenant.suspended',
    'tenant.resumed',
  ]);
  for (const [n, { id: eventId, type }] of all.entries()) {
    expect(await deliveryOf(tenant, eventId, id)).toMatchObject({
      eventId,
      eventType: type,
      seq: n + 1,
      status: 'pending',
    });
  }
  for (const [n, { id: eventId }] of all.entries())
    expect(await deliveryOf(tenant, eventId, id)).toMatchObject({ eventId, seq: n + 1 });
  expect(await dueOf(id)).toEqual([1, 2, 3, 4].map((seq) => ({ first: seq, last: seq, manual: true })));
  expect((await events(tenant, `?endpointId=${id}`)).map((one) => one.id)).toEqual(all.map((one) => one.id));
  const entries = await api.admin<{ action: string }[]>`
    select action from audit_log where target = ${id} order by seq`;
  expect(entries.map(({ action }) => action)).toEqual(Array(8).fill('webhook_endpoint.replayed'));
});

test("replaying an event that is already in the endpoint's feed keeps its sequence number", async () => {
  const tenant = await setup();
  const id = await endpoint(tenant, ['message.sent']);
  for (let n = 0; n < 3; n += 1) await accept(tenant);
  await attempt(tenant);
  await match(tenant);
  await api.admin`delete from due_deliveries where endpoint_id = ${id}`;
  const sent = (await events(tenant)).filter(({ type }) => type === 'message.sent');
  expect(sent).toHaveLength(3);
  const own = await events(tenant, `?endpointId=${id}`);
  for (const { id: eventId } of sent) {
    const { data } = own.find((one) => one.id === eventId) ?? { data: { seq: 0 } };
    expect(await deliveryOf(tenant, eventId, id)).toMatchObject({ eventId, seq: data.seq });
  }
  expect(await dueOf(id)).toEqual([1, 2, 3].map((seq) => ({ first: seq, last: seq, manual: true })));
  expect(await events(tenant, `?endpointId=${id}`)).toHaveLength(3);
});

test('events matched after a replay get the next sequence numbers, without duplicates', async () => {
  const tenant = await setup();
  const id = await endpoint(tenant, ['message.*']);
  await match(tenant);
  await accept(tenant);
  await match(tenant);
  const other = await endpoint(tenant, ['message.sent']);
  const [first] = await events(tenant);
  await deliveryOf(tenant, first?.id ?? '', id);
  await deliveryOf(tenant, first?.id ?? '', other);
  await attempt(tenant);
  await match(tenant);
  const typesOf = async (of: string) =>
    (await events(tenant, `?endpointId=${of}`)).map(({ type, data }) => [data.seq, type]);
  for (const of of [id, other]) {
    expect(await typesOf(of)).toEqual([
      [1, 'message.queued'],
      [2, 'message.sent'],
    ]);
  }
});

test('concurrent replays of an event create one delivery', async () => {
  const tenant = await setup();
  await accept(tenant);
  await number();
  const id = await endpoint(tenant, ['message.failed']);
  const [event] = await events(tenant);
  const replies = await Promise.all(Array.from({ length: 6 }, () => replay(tenant, event?.id ?? '', id)));
  expect(replies.map(({ status }) => status)).toEqual(Array(6).fill(202));
  expect(new Set(replies.map(({ body }) => body.deliveryId)).size).toBe(1);
  expect(await dueOf(id)).toEqual([{ first: 1, last: 1, manual: true }]);
});

test('a replay is 409 before the event is matched and while a worker has claimed the delivery', async () => {
  const tenant = await setup();
  const id = await endpoint(tenant, ['message.*']);
  const messageId = await accept(tenant);
  const history = await get(api.first, `/v1/messages/${messageId}/events`, tenant.key);
  const eventId: string = history.body.items[0].id;
  const refused = async () => {
    const { status, body } = await replay(tenant, eventId, id);
    return [status, body.code];
  };
  expect(await refused()).toEqual([409, 'invalid_state']);
  await number();
  expect(await refused()).toEqual([409, 'invalid_state']);
  await match(tenant);
  await api.admin`
    update due_deliveries set claim = 1, due_at = now() + interval '1 min' where endpoint_id = ${id}`;
  expect(await refused()).toEqual([409, 'invalid_state']);
  await api.admin`update due_deliveries set due_at = now() - interval '1 min' where endpoint_id = ${id}`;
  expect(await refused()).toEqual([202, undefined]);
  expect(await events(tenant, `?endpointId=${id}`)).toHaveLength(1);
});

test('a replay of a foreign or unknown event, or to a foreign, deleted or unknown endpoint, is 404', async () => {
  const [tenant, other] = [await setup(), await setup()];
  await accept(tenant);
  await accept(other);
  await moveSuspension(api.admin, other.tenantId, 'manual');
  await number();
  await moveSuspension(api.admin, other.tenantId, null);
  const [own, foreign, deleted] = [
    await endpoint(tenant, ['*']),
    await endpoint(other, ['*']),
    await endpoint(tenant, ['*']),
  ];
  await api.admin`update webhook_endpoints set deleted_at = now() where id = ${deleted}`;
  const [mine] = await events(tenant);
  const theirs = await events(other);
  expect(theirs).toHaveLength(2);
  const held = await api.admin<
    { id: string }[]
  >`select id from messages where tenant_id = ${tenant.tenantId}`;
  for (const [eventId, endpointId] of [
    [theirs[0]?.id, own],
    [theirs[1]?.id, own],
    [mine?.id, foreign],
    [mine?.id, deleted],
    [mine?.id, randomUUID()],
    [randomUUID(), own],
    [held[0]?.id, own],
  ]) {
    const { status, body } = await replay(tenant, eventId ?? '', endpointId ?? '');
    expect([status, body.code]).toEqual([404, 'not_found']);
  }
  await api.admin`delete from messages where tenant_id = ${tenant.tenantId}`;
  expect((await replay(tenant, mine?.id ?? '', own)).status).toBe(404);
  expect([await dueOf(own), await dueOf(foreign)]).toEqual([[], []]);
});
