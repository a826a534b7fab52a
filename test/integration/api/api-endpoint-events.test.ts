import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventEnvelope } from '#core/domain/webhooks/event-schemas.ts';
import { workerStore, type WorkerStore } from '#core/store/worker-store.ts';
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
type Caller = TestKey | { readonly token: string; readonly slug: string };
type Reader = ApiTenant & { readonly reader: TestKey; readonly person: Caller };

async function setup(): Promise<Reader> {
  const tenant = await api.tenant();
  const reader = await api.key(tenant.tenantId, { scopes: ['events:read'] });
  const { token } = await api.member(tenant, 'viewer');
  return { ...tenant, reader, person: { token, slug: tenant.slug } };
}

async function accept(key: TestKey): Promise<string> {
  const { body, status } = await send(api.first, key, LEAST.sms);
  expect(status).toBe(202);
  return body.id;
}

async function number(): Promise<void> {
  while ((await store.numberChanges(100, 0)).outcome === 'more');
}

async function endpoint(tenantId: string, isMasked = false): Promise<string> {
  const id = randomUUID();
  await api.admin`
    insert into webhook_endpoints (id, tenant_id, url, event_types, mask_recipients, secret, matched_to)
    values (${id}, ${tenantId}, 'https://example.com/events', '{*}', ${isMasked}, 'ciphertext', 0)`;
  return id;
}

/** Inserts the tenant's events with these feed numbers into the endpoint's feed, as runs of one event each. */
async function tell(tenantId: string, endpointId: string, seqs: readonly number[]): Promise<void> {
  for (const [i, seq] of seqs.entries()) {
    await api.admin`
      insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      select ${i + 1}, ${i + 1}, ${seq}, clock_timestamp(), ${endpointId}, ${tenantId}, f.purge_on,
        array[f.seqs[${seq} - f.first_seq + 1]], array[f.numbers[${seq} - f.first_seq + 1]]
      from feed f where f.tenant_id = ${tenantId} and ${seq} between f.first_seq and f.last_seq`;
  }
  await api.admin`
    insert into endpoint_heads (endpoint_id, feed_seq, last_seq, matched_at, tenant_id)
    values (${endpointId}, ${Math.max(...seqs)}, ${seqs.length}, clock_timestamp(), ${tenantId})`;
}

function ask(who: Caller, query: string) {
  return get(api.first, `${'text' in who ? '/v1/events' : '/v1/admin/events'}${query}`, who);
}

async function feed(who: Caller, query: string): Promise<Feed> {
  const { status, body } = await ask(who, query);
  expect({ status, code: body.code }).toEqual({ status: 200, code: undefined });
  return body as Feed;
}

const seqsOf = ({ items }: Feed) => items.map(({ data }) => data.seq);

describe("an endpoint's feed", () => {
  test("has its own sequence numbers and the same events as the tenant's feed", async () => {
    const tenant = await setup();
    for (let n = 0; n < 6; n += 1) await accept(tenant.key);
    await number();
    const id = await endpoint(tenant.tenantId);
    await tell(tenant.tenantId, id, [2, 3, 5]);
    const all = await feed(tenant.reader, '');
    const own = await feed(tenant.reader, `?endpointId=${id}`);
    expect(seqsOf(own)).toEqual([1, 2, 3]);
    expect(own).toMatchObject({ nextCursor: null, lastSeq: 3 });
    expect(own.items.map((one) => one.id)).toEqual([1, 2, 4].map((n) => all.items[n]?.id));
    expect(await feed(tenant.person, `?endpointId=${id.toUpperCase()}`)).toEqual(own);
    expect(seqsOf(await feed(tenant.reader, `?endpointId=${id}&afterSeq=2`))).toEqual([3]);
    expect(await feed(tenant.reader, `?endpointId=${id}&afterSeq=3`)).toMatchObject({
      items: [],
      lastSeq: 3,
    });
    expect(await feed(tenant.reader, `?endpointId=${id}&type=tenant.*`)).toMatchObject({
      items: [],
      lastSeq: 3,
    });
    // They were accepted by an api whose clock is a minute ahead.
    await api.admin`update endpoint_feed set matched_at = matched_at - interval '1 minute' where endpoint_id = ${id}`;
    const since = encodeURIComponent(own.items[0]?.timestamp ?? '');
    expect(seqsOf(await feed(tenant.reader, `?endpointId=${id}&since=${since}`))).toEqual([1, 2, 3]);
    const late = await feed(tenant.reader, `?endpointId=${id}&since=2199-01-01T00:00:00Z`);
    expect(late).toMatchObject({ items: [], lastSeq: 3 });
  });

  test('is paged with cursors that are valid only for this endpoint', async () => {
    const tenant = await setup();
    for (let n = 0; n < 5; n += 1) await accept(tenant.key);
    await number();
    const [id, other] = [await endpoint(tenant.tenantId), await endpoint(tenant.tenantId)];
    await tell(tenant.tenantId, id, [1, 2, 3, 4, 5]);
    await tell(tenant.tenantId, other, [1, 2, 3, 4, 5]);
    const first = await feed(tenant.reader, `?endpointId=${id}&limit=3`);
    expect(seqsOf(first)).toEqual([1, 2, 3]);
    const cursor = first.nextCursor ?? '';
    const next = await feed(tenant.reader, `?endpointId=${id}&limit=3&cursor=${cursor}`);
    expect([seqsOf(next), next.nextCursor]).toEqual([[4, 5], null]);
    for (const query of [`?endpointId=${other}&limit=3`, '?limit=3']) {
      const { status, body } = await ask(tenant.reader, `${query}&cursor=${cursor}`);
      expect([query, status, body.code]).toEqual([query, 400, 'invalid_cursor']);
    }
  });

  test('masks recipients only if the endpoint enables it', async () => {
    const tenant = await setup();
    await accept(tenant.key);
    await moveSuspension(api.admin, tenant.tenantId, 'manual');
    await number();
    await moveSuspension(api.admin, tenant.tenantId, null);
    const [open, masked] = [await endpoint(tenant.tenantId), await endpoint(tenant.tenantId, true)];
    for (const id of [open, masked]) await tell(tenant.tenantId, id, [1, 2]);
    const tos = async (id: string) =>
      (await feed(tenant.reader, `?endpointId=${id}`)).items.map(({ data }) =>
        'to' in data ? data.to : null,
      );
    expect(await tos(open)).toEqual([LEAST.sms.to, null]);
    expect(await tos(masked)).toEqual([`+***${LEAST.sms.to.slice(-2)}`, null]);
  });

  test('masks the address in suppression events too', async () => {
    const tenant = await setup();
    await api.admin`
      insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
      values (${tenant.tenantId}, 'email', decode(md5(${tenant.tenantId}), 'hex'), 'ann@example.com', 'manual', 'all', 'api')`;
    await api.admin`delete from suppressions where tenant_id = ${tenant.tenantId}`;
    await number();
    const [open, masked] = [await endpoint(tenant.tenantId), await endpoint(tenant.tenantId, true)];
    for (const id of [open, masked]) await tell(tenant.tenantId, id, [1, 2]);
    const told = async (id: string) =>
      (await feed(tenant.reader, `?endpointId=${id}`)).items.map(({ type, data }) => [
        type,
        'address' in data ? data.address : null,
      ]);
    for (const [id, address] of [
      [open, 'ann@example.com'],
      [masked, 'a***@example.com'],
    ] as const) {
      expect(await told(id)).toEqual([
        ['suppression.added', address],
        ['suppression.removed', address],
      ]);
    }
  });

  test('shows a test key only events of test messages', async () => {
    const tenant = await setup();
    const testKey = await api.key(tenant.tenantId, {
      mode: 'test',
      scopes: ['events:read', 'messages:send'],
    });
    await accept(tenant.key);
    await accept(testKey);
    await accept(tenant.key);
    await number();
    const id = await endpoint(tenant.tenantId);
    await tell(tenant.tenantId, id, [1, 2, 3]);
    const query = `?endpointId=${id}`;
    expect([seqsOf(await feed(testKey, query)), seqsOf(await feed(tenant.reader, query))]).toEqual([
      [2],
      [1, 3],
    ]);
    expect(seqsOf(await feed(tenant.person, query))).toEqual([1, 2, 3]);
  });

  test("is 404 for another tenant's endpoint, a deleted one and an unknown one", async () => {
    const [tenant, other] = [await setup(), await setup()];
    await accept(other.key);
    await number();
    const [foreign, deleted] = [await endpoint(other.tenantId), await endpoint(tenant.tenantId)];
    await tell(other.tenantId, foreign, [1]);
    await api.admin`update webhook_endpoints set deleted_at = now() where id = ${deleted}`;
    for (const id of [foreign, deleted, randomUUID()]) {
      for (const who of [tenant.reader, tenant.person]) {
        const { status, body } = await ask(who, `?endpointId=${id}`);
        expect([status, body.code]).toEqual([404, 'not_found']);
      }
    }
    expect((await ask(tenant.reader, '?endpointId=x')).status).toBe(400);
  });
});
