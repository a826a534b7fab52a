import { describe, expect, test } from 'vitest';
import { matchesEndpoint } from '#core/domain/webhooks/webhook-endpoint.ts';
import type { DeliveryClaim } from '#core/store/webhooks/delivery-claim.ts';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { acceptBatch, acceptRow, moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import { direct, LEASE_MS, seqsOf, setupWebhooks, upTo } from '#test/support/setup-webhooks.ts';

const claimsOf = (claims: readonly DeliveryClaim[], id: string): number =>
  claims.filter(({ endpoint }) => endpoint.tenantId === id).length;

describe('webhook matching', () => {
  test('numbers the events that pass the filters of each endpoint from 1', async () => {
    await using b = await setupWebhooks();
    const [all, push] = [await b.endpoint(), await b.endpoint({ channels: ['push'] })];
    await seedAccount(b.admin, b.tenant.tenantId, { channel: 'push' });
    const sms = await b.send(3);
    const others = await b.send(2, b.tenant, { channel: 'push' });
    await b.match();
    expect(await b.feed(all)).toEqual([...sms, ...others].map((message, i) => ({ seq: i + 1, message })));
    expect(await b.feed(push)).toEqual(others.map((message, i) => ({ seq: i + 1, message })));
    await b.match();
    const more = await b.send(1, b.tenant, { channel: 'push' });
    await b.match();
    expect((await b.feed(push)).at(-1)).toEqual({ seq: 3, message: more[0] });
    expect(await b.due(push)).toMatchObject([
      { first: 1, last: 2 },
      { first: 3, last: 3 },
    ]);
  });

  test('includes events of test messages', async () => {
    await using b = await setupWebhooks();
    await b.endpoint();
    await b.send(1, b.tenant, { test: true });
    const { claims } = await b.match(1);
    expect(claims[0]?.events[0]?.event).toMatchObject({ type: 'message.queued', message: { test: true } });
  });

  test('leaves no gaps and no duplicates with concurrent workers', async () => {
    await using b = await setupWebhooks();
    const ids = [await b.endpoint(), await b.endpoint({ event_types: ['message.queued'] })];
    const workers = upTo(3).map(() => webhookStore(b.worker, direct, b.loadIds));
    const sent: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      sent.push(...(await b.send(1 + (round % 4))));
      await Promise.all(workers.map((worker) => b.match(round % 3, worker)));
    }
    await b.match();
    for (const id of ids) {
      expect(await b.feed(id)).toEqual(sent.map((message, i) => ({ seq: i + 1, message })));
      const rows = await b.due(id);
      expect(rows.flatMap(({ first, last }) => upTo(last, first))).toEqual(upTo(sent.length));
    }
  });

  test('handles a bounded number of endpoints per pass, those furthest behind first', async () => {
    await using b = await setupWebhooks();
    const ids: string[] = [];
    for (const _ of upTo(10)) ids.push(await b.endpoint());
    const sent = await b.send(500);
    const lengths = async () =>
      (await Promise.all(ids.map((id) => b.feed(id)))).map(({ length }) => length).toSorted((x, y) => x - y);
    const first = await b.match();
    expect(first.behind).toEqual([b.tenant.tenantId]);
    expect(await lengths()).toEqual([...upTo(6).map(() => 0), ...upTo(4).map(() => 500)]);
    await b.match();
    expect(await lengths()).toEqual([0, 0, ...upTo(8).map(() => 500)]);
    expect((await b.match()).behind).toEqual([b.tenant.tenantId]);
    expect((await b.match()).behind).toEqual([]);
    for (const id of ids)
      expect(await b.feed(id)).toEqual(sent.map((message, i) => ({ seq: i + 1, message })));
  });

  test('claims no more than the limit per tenant for a tenant with many endpoints', async () => {
    await using b = await setupWebhooks();
    for (const _ of upTo(6)) await b.endpoint();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    await b.endpoint({}, other.tenantId);
    await b.send(1);
    await b.send(1, other);
    const terms = { match: matchesEndpoint, claimsMax: 10, tenantClaimsMax: 2, leaseMs: LEASE_MS, busy: [] };
    const { claims, isLeftDue } = await b.webhooks.matchEvents([b.tenant.tenantId, other.tenantId], terms);
    expect([claimsOf(claims, b.tenant.tenantId), claims.length, isLeftDue]).toEqual([2, 3, true]);
  });

  test('appends nothing that was matched by filters which have changed since', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(2);
    const late = webhookStore(b.worker, direct, async () => {
      await b.admin`update despatch.webhook_endpoints set event_types = '{message.failed}', version = 2`;
      return b.loadIds();
    });
    expect(await b.match(1, late)).toMatchObject({ claims: [], missed: [b.tenant.tenantId] });
    await b.match(1);
    expect(await b.feed(id)).toEqual([]);
  });

  test('appends nothing that another worker has already appended', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(2);
    const ask = {
      endpoint_id: id,
      expected: 0,
      version: 1,
      server: await b.server(),
      upto: 2,
      feed_seqs: [1],
      message_seqs: [1],
      numbers: [0],
      days: ['2030-01-07'],
    };
    const append = (one: object) =>
      b.worker`select * from append_matches(${b.worker.typed([one] as never, 114)}, 0, 0, 1000)`;
    // A match from a server that has been replaced by this one appends nothing.
    expect(await append({ ...ask, server: ask.server - 1 })).toEqual([]);
    expect(await append(ask)).toHaveLength(1);
    expect(await append(ask)).toEqual([]);
    expect(await append({ ...ask, expected: 1 })).toEqual([]);
    expect(await b.due(id)).toHaveLength(1);
  });

  test('reports the tenants of locked endpoints as missed and matches them in the next pass', async () => {
    await using b = await setupWebhooks();
    const [locked, free] = [await b.endpoint(), await b.endpoint()];
    await b.send(2);
    await b.admin.begin(async (tx) => {
      await tx`select from despatch.webhook_endpoints where id = ${locked} for update`;
      expect((await b.match()).missed).toEqual([b.tenant.tenantId]);
    });
    expect([await b.feed(locked), await b.feed(free)].map(({ length }) => length)).toEqual([0, 2]);
    expect((await b.match()).missed).toEqual([]);
    expect(await b.feed(locked)).toHaveLength(2);
    // Two workers match at the same time: one of them stores nothing and is told so.
    await b.send(1);
    const workers = upTo(3).map(() => webhookStore(b.worker, direct, b.loadIds));
    const matched = await Promise.all(workers.map((worker) => b.match(0, worker)));
    const appended = matched.filter(({ isLeftDue }) => isLeftDue);
    expect(appended.length).toBeGreaterThan(0);
    expect((await b.match()).missed).toEqual([]);
    expect(await b.feed(locked)).toHaveLength(3);
  });

  test('claims one range per endpoint within its room, none of paused or ordered endpoints', async () => {
    await using b = await setupWebhooks();
    const [one, paused, ordered] = [
      await b.endpoint(),
      await b.endpoint({ status: 'paused' }),
      await b.endpoint({ ordered: true }),
    ];
    await b.send(150);
    const { claims, isLeftDue } = await b.match(5);
    expect(claims.map(({ endpoint }) => endpoint.id)).toEqual([one]);
    expect(seqsOf(claims)).toEqual(upTo(100));
    expect(
      claims[0]?.events.every(({ seq, event }) => event.seq === seq && event.type === 'message.queued'),
    ).toBe(true);
    expect(isLeftDue).toBe(true);
    expect(await b.due(one)).toMatchObject([
      { first: 1, last: 100, isClaimed: true },
      { first: 101, last: 150, isClaimed: false },
    ]);
    for (const id of [paused, ordered])
      expect((await b.due(id)).map(({ isClaimed }) => isClaimed)).toEqual([false, false]);
    await b.send(1);
    expect((await b.match(0)).claims).toEqual([]);
  });

  test("shows nobody another tenant's events", async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const [mine, theirs] = [await b.endpoint(), await b.endpoint({}, other.tenantId)];
    const sent = await b.send(2, other);
    await b.match(5, b.webhooks, LEASE_MS, [b.tenant.tenantId, other.tenantId]);
    expect(await b.feed(mine)).toEqual([]);
    expect((await b.feed(theirs)).map(({ message }) => message)).toEqual(sent);
    // A worker that names the other tenant's keys gets nothing either.
    const [day] = await b.admin<{ day: string }[]>`select purge_on as day from despatch.messages limit 1`;
    const ask = {
      endpoint_id: mine,
      expected: 0,
      version: 1,
      server: await b.server(),
      upto: 9,
      feed_seqs: [1, 2],
      message_seqs: sent,
      numbers: [0, 0],
      days: [day?.day, day?.day],
    };
    await b.worker`select * from append_matches(${b.worker.typed([ask] as never, 114)}, 0, 0, 1000)`;
    const claimed = (await b.claims()).filter(({ endpoint }) => endpoint.id === mine);
    expect(claimed).toHaveLength(1);
    expect(claimed[0]?.events).toEqual([]);
  });

  test('continues for other tenants if it fails for one tenant', async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const [refused, taken] = [await b.endpoint(), await b.endpoint({}, other.tenantId)];
    await b.admin`alter table despatch.endpoint_feed add constraint refused check (endpoint_id::text <> '${b.admin.unsafe(refused)}')`;
    await b.send(600);
    const sent = await b.send(2, other);
    const { claims, behind, failures } = await b.match(5, b.webhooks, LEASE_MS, [
      b.tenant.tenantId,
      other.tenantId,
    ]);
    expect(claims.map(({ endpoint }) => endpoint.id)).toEqual([taken]);
    expect((await b.feed(taken)).map(({ message }) => message)).toEqual(sent);
    // The tenant is retried later as one that is behind, not at once in a loop.
    expect(behind).toEqual([]);
    expect(failures).toEqual([
      expect.objectContaining({ message: `Events of tenant ${b.tenant.tenantId} are not matched` }),
    ]);
    expect((await b.webhooks.endpointsBehind(null, 10)).tenantIds).toEqual([b.tenant.tenantId]);
  });

  test('continues for other tenants if the events of one tenant cannot be read', async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const [, readable] = [await b.endpoint(), await b.endpoint({}, other.tenantId)];
    await b.send(2);
    const sent = await b.send(2, other);
    const refusing = new Proxy(b.worker, {
      apply(sql, _self, [strings, ...values]: [TemplateStringsArray, ...unknown[]]) {
        const isRefused =
          strings.join('').includes('read_feeds') && [values[0]].flat().includes(b.tenant.tenantId);
        return isRefused ? sql`select 1 / 0` : sql(strings, ...(values as never[]));
      },
    });
    const { behind, failures } = await b.match(5, webhookStore(refusing, direct, b.loadIds), LEASE_MS, [
      b.tenant.tenantId,
      other.tenantId,
    ]);
    expect((await b.feed(readable)).map(({ message }) => message)).toEqual(sent);
    expect(behind).toEqual([]);
    expect(failures.map(({ message }) => message)).toEqual([
      'Events of several tenants were not read together',
      `Events of tenant ${b.tenant.tenantId} are not matched`,
    ]);
  });

  test('stores the feed position of an endpoint rarely while no event passes its filters', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ event_types: ['tenant.*'] });
    await b.send(600);
    await b.matchAll();
    const positions = () =>
      b.admin`select feed_seq, last_seq from despatch.endpoint_heads where endpoint_id = ${id}`;
    expect(await positions()).toEqual([]);
    await b.send(600);
    await b.matchAll();
    expect(await positions()).toEqual([{ feed_seq: 1_100, last_seq: 0 }]);
    await b.send(1_100);
    await b.matchAll();
    expect(await positions()).toEqual([{ feed_seq: 2_200, last_seq: 0 }]);
    await moveSuspension(b.admin, b.tenant.tenantId, 'manual');
    await b.number();
    await b.match();
    expect(await positions()).toEqual([{ feed_seq: 2_301, last_seq: 1 }]);
    expect(await b.feed(id)).toEqual([{ seq: 1, message: 0 }]);
  });

  test('finds the tenants of endpoints that are behind, in bounded pages', async () => {
    await using b = await setupWebhooks();
    for (const _ of upTo(3)) await b.endpoint();
    for (const _ of upTo(5)) await b.endpoint({ deleted_at: new Date() });
    await b.send(1);
    expect((await b.webhooks.endpointsBehind(null, 4)).next).toBeNull();
    const first = await b.webhooks.endpointsBehind(null, 2);
    expect(first.tenantIds).toEqual([b.tenant.tenantId]);
    const second = await b.webhooks.endpointsBehind(first.next, 2);
    expect(second).toEqual({ tenantIds: [b.tenant.tenantId], next: null });
    await b.match();
    expect((await b.webhooks.endpointsBehind(null, 10)).tenantIds).toEqual([]);
  });

  test('finds tenants that are behind among those with new events or that were behind before', async () => {
    await using b = await setupWebhooks();
    const idle = await seedTenant(b.admin);
    await b.endpoint({}, idle.tenantId);
    await b.endpoint();
    const first = await b.webhooks.tenantsBehind(null, []);
    expect(first).toEqual({ tenantIds: [], newestPass: expect.any(Number), isWhole: false });
    await b.send(1);
    const second = await b.webhooks.tenantsBehind(first.newestPass, []);
    expect(second).toEqual({
      tenantIds: [b.tenant.tenantId],
      newestPass: expect.any(Number),
      isWhole: true,
    });
    const { newestPass } = second;
    expect((await b.webhooks.tenantsBehind(newestPass, [])).tenantIds).toEqual([]);
    expect((await b.webhooks.tenantsBehind(newestPass, second.tenantIds)).tenantIds).toEqual([
      b.tenant.tenantId,
    ]);
    await b.match();
    expect(await b.webhooks.tenantsBehind(newestPass, second.tenantIds)).toEqual({
      tenantIds: [],
      newestPass,
      isWhole: true,
    });
    expect((await b.webhooks.tenantsBehind(-1, [])).isWhole).toBe(false);
  });

  test('is requested after each numbering pass for tenants that have endpoints', async () => {
    await using b = await setupWebhooks();
    await acceptBatch(b.api, [acceptRow(b.tenant)]);
    expect(await b.number()).toEqual([]);
    await b.endpoint();
    await acceptBatch(b.api, [acceptRow(b.tenant)]);
    expect(await b.number()).toEqual([b.tenant.tenantId]);
  });
});
