import { describe, expect, test } from 'vitest';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { rowsRead } from '#test/support/rows-read.ts';
import { moveSuspension, seedTenant } from '#test/support/seed.ts';
import { direct, LEASE_MS, seqsOf, setupWebhooks, succeeded, upTo } from '#test/support/setup-webhooks.ts';

describe('a webhook endpoint', () => {
  test('changes its health under a lock and for the called version only, with an event each', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ url: 'https://hooks.test/?token=t' });
    const fail = () =>
      b.webhooks.changeEndpoint(id, 1, (now) => ({
        ...now,
        failures: now.failures + 1,
        failingSince: now.failingSince ?? new Date(),
        status: now.failures === 3 ? 'failing' : now.status,
        callAt: now.failures === 3 ? new Date(Date.now() + 5_000) : null,
      }));
    await Promise.all(upTo(4).map(fail));
    const health = await b.webhooks.changeEndpoint(id, 1, () => undefined);
    expect(health).toMatchObject({ status: 'failing', failures: 4, statusReason: null });
    expect(health?.callAt?.getTime()).toBeGreaterThan(Date.now());
    expect(await b.webhooks.changeEndpoint(id, 2, (now) => ({ ...now, failures: 0 }))).toBeUndefined();
    await b.webhooks.changeEndpoint(id, 1, (now) => ({ ...now, status: 'disabled', statusReason: 'gone' }));
    const told = await b.admin`select type, details from despatch.tenant_events order by event_seq`;
    const facts = { endpointId: id, url: 'https://hooks.test/' };
    expect(told).toEqual([
      { type: 'endpoint.failing', details: { ...facts, status: 'failing' } },
      { type: 'endpoint.disabled', details: { ...facts, status: 'disabled', reason: 'gone' } },
    ]);
  });

  test('is returned by changedEndpoints if its version changed or it was deleted', async () => {
    await using b = await setupWebhooks();
    const [same, changed, deleted] = [await b.endpoint(), await b.endpoint(), await b.endpoint()];
    const known = [same, changed, deleted].map((id) => ({ id, version: 1 }));
    expect(await b.webhooks.changedEndpoints(known)).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set version = 2 where id = ${changed}`;
    await b.admin`update despatch.webhook_endpoints set deleted_at = now() where id = ${deleted}`;
    expect(await b.webhooks.changedEndpoints(known)).toEqual([changed, deleted]);
  });

  test('is neither called nor tested any more once the deletion of its tenant has begun', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.admin`insert into despatch.endpoint_tests (endpoint_id, tenant_id) values (${id}, ${b.tenant.tenantId})`;
    const suspended = await seedTenant(b.admin);
    const theirs = await b.endpoint({}, suspended.tenantId);
    await moveSuspension(b.admin, suspended.tenantId, 'manual');
    const known = [id, theirs].map((one) => ({ id: one, version: 1 }));
    expect(await b.webhooks.changedEndpoints(known)).toEqual([]);
    await b.admin`update despatch.tenants set status = 'deleting' where id = ${b.tenant.tenantId}`;
    expect(await b.webhooks.changedEndpoints(known)).toEqual([id]);
    expect(await b.webhooks.takeEndpointTests(10)).toEqual([]);
  });

  test('is tested once per request, and again if the test stored no result', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ status: 'paused' });
    const [asked] = await b.admin<{ id: string }[]>`
      insert into despatch.endpoint_tests (endpoint_id, tenant_id) values (${id}, ${b.tenant.tenantId}) returning id`;
    expect(await b.webhooks.takeEndpointTests(10)).toMatchObject([
      { id: asked?.id, endpoint: { id, status: 'paused' } },
    ]);
    expect(await b.webhooks.takeEndpointTests(10)).toEqual([]);
    await b.admin`update despatch.endpoint_tests set due_at = now()`;
    expect(await b.webhooks.takeEndpointTests(10)).toHaveLength(1);
    await b.webhooks.storeEndpointTest(asked?.id ?? '', { succeeded: true });
    await b.admin`update despatch.endpoint_tests set due_at = now()`;
    expect(await b.webhooks.takeEndpointTests(10)).toEqual([]);
    expect(await b.admin`select result from despatch.endpoint_tests`).toEqual([
      { result: { succeeded: true } },
    ]);
    await b.admin`update despatch.endpoint_tests set asked_at = now() - interval '11 minutes'`;
    await b.webhooks.takeEndpointTests(10);
    expect(await b.admin`select from despatch.endpoint_tests`).toHaveLength(0);
  });

  test('is tested even if another tenant has requested more tests than its limit', async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    const [mine, theirs] = [await b.endpoint(), await b.endpoint({}, other.tenantId)];
    await b.admin`insert into despatch.endpoint_tests (endpoint_id, tenant_id, asked_at)
      select ${mine}, ${b.tenant.tenantId}, now() - interval '1 second' from generate_series(1, 5)`;
    await b.admin`insert into despatch.endpoint_tests (endpoint_id, tenant_id) values (${theirs}, ${other.tenantId})`;
    const taken = await b.webhooks.takeEndpointTests(10);
    expect(taken.map(({ endpoint }) => endpoint.id).toSorted()).toEqual(
      [mine, mine, mine, theirs].toSorted(),
    );
    expect(await b.webhooks.takeEndpointTests(10)).toEqual([]);
    await b.webhooks.storeEndpointTest(taken[0]?.id ?? '', {});
    expect(await b.webhooks.takeEndpointTests(10)).toHaveLength(1);
  });

  test('is not claimed while its tenant is busy', async () => {
    await using b = await setupWebhooks();
    await b.endpoint();
    await b.send(1);
    await b.match();
    const ask = { after: null, endpointsMax: 10, claimsMax: 10, tenantClaimsMax: 10, leaseMs: LEASE_MS };
    const taken = await b.webhooks.claimDeliveries({ ...ask, busy: [b.tenant.tenantId] });
    expect(taken.claims).toEqual([]);
    expect((await b.webhooks.claimDeliveries({ ...ask, busy: [] })).claims).toHaveLength(1);
  });

  test('is numbered within its tenant', async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    for (const tenantId of [b.tenant.tenantId, b.tenant.tenantId, other.tenantId])
      await b.endpoint({}, tenantId);
    const rows = await b.admin`select number from despatch.webhook_endpoints order by number`;
    expect(rows.map(({ number }) => Number(number))).toEqual([1, 1, 2]);
  });

  test('sets oldestUnmatchedSeconds to the time since its oldest unmatched event was numbered', async () => {
    await using b = await setupWebhooks();
    expect(await b.webhooks.oldestUnmatchedSeconds()).toBe(0);
    await b.send(1);
    await b.endpoint({ matched_to: 1 });
    expect(await b.webhooks.oldestUnmatchedSeconds()).toBe(0);
    await b.send(2);
    await b.admin`update despatch.feed set numbered_at = now() - interval '100 seconds' where last_seq > 1`;
    expect(await b.webhooks.oldestUnmatchedSeconds()).toBeGreaterThan(99);
    await b.match();
    expect(await b.webhooks.oldestUnmatchedSeconds()).toBe(0);
    await b.send(1);
    await b.admin`update despatch.tenants set status = 'deleting'`;
    expect(await b.webhooks.oldestUnmatchedSeconds()).toBe(0);
  });

  test('adds no reads to oldestUnmatchedSeconds and oldestDueSeconds while it has no events', async () => {
    await using b = await setupWebhooks();
    await b.send(1);
    const id = await b.endpoint();
    await b.admin`
      with idle as (
        insert into despatch.tenants (id, slug, name) select gen_random_uuid(), 'idle-' || n, 'idle' from generate_series(1, 300) n
        returning id
      )
      insert into despatch.webhook_endpoints (tenant_id, url, event_types, secret, matched_to)
      select i.id, 'https://hooks.test/', '{*}', 's', 1 from idle i`;
    const connection = await b.admin.reserve();
    try {
      await connection`set search_path = despatch`;
      const store = webhookStore(connection, direct, b.loadIds);
      const { next } = await store.endpointsBehind(null, 500);
      expect(next).toBeNull();
      await b.admin`update despatch.feed set numbered_at = now() - interval '100 seconds'`;
      const read = async (seconds: () => Promise<number>) => {
        let age = 0;
        const rows = await rowsRead(connection, async () => void (age = await seconds()));
        return { isLate: age > 99, isWhole: rows > 100 };
      };
      expect(await read(store.oldestUnmatchedSeconds)).toEqual({ isLate: true, isWhole: false });
      await b.matchAll();
      expect(await read(store.oldestUnmatchedSeconds)).toEqual({ isLate: false, isWhole: false });
      await b.admin`update despatch.due_deliveries set due_at = now() - interval '100 seconds' where endpoint_id = ${id}`;
      expect(await read(store.oldestDueSeconds)).toEqual({ isLate: true, isWhole: false });
    } finally {
      connection.release();
    }
  });

  test('counts in oldestDueSeconds only while it can be called', async () => {
    await using b = await setupWebhooks();
    expect(await b.webhooks.oldestDueSeconds()).toBe(0);
    await b.endpoint();
    await b.send(1);
    await b.match();
    await b.admin`update despatch.due_deliveries set due_at = now() - interval '100 seconds'`;
    expect(await b.webhooks.oldestDueSeconds()).toBeGreaterThan(99);
    await b.admin`update despatch.webhook_endpoints set status = 'paused'`;
    expect(await b.webhooks.oldestDueSeconds()).toBe(0);
  });

  test('counts deliveries as late only if it has a free rate limit token', async () => {
    await using b = await setupWebhooks();
    await b.endpoint({ rate_limit_per_second: 1 });
    await b.send(3);
    await b.match();
    await b.admin`update despatch.due_deliveries set due_at = now() - interval '100 seconds'`;
    expect(await b.webhooks.oldestDueSeconds()).toBeGreaterThan(99);
    const claimed = await b.claims();
    expect(seqsOf(claimed)).toEqual([1]);
    await b.webhooks.completeDeliveries(claimed.map(succeeded));
    expect(await b.webhooks.oldestDueSeconds()).toBeLessThan(50);
    // The others are not claimed although a rate token is available each second, so they count as late.
    await b.admin`update despatch.account_rates set ticks[1] = ticks[1] - 5000`;
    expect(await b.webhooks.oldestDueSeconds()).toBeGreaterThan(99);
  });

  test('does not count deliveries as late that wait for the end of a claim', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true });
    await b.send(1);
    await b.match();
    const claimed = await b.claims();
    await b.send(1);
    await b.match();
    await b.admin`update despatch.due_deliveries set due_at = now() - interval '100 seconds' where claim is null`;
    expect(await b.webhooks.oldestDueSeconds()).toBe(0);
    await b.webhooks.completeDeliveries(claimed.map(succeeded));
    expect(await b.due(id)).toHaveLength(1);
    expect(await b.webhooks.oldestDueSeconds()).toBeGreaterThan(99);
  });

  test('is counted by its status until it is deleted', async () => {
    await using b = await setupWebhooks();
    expect(await b.webhooks.endpointCounts()).toEqual([]);
    const [first, second] = [await b.endpoint(), await b.endpoint(), await b.endpoint()];
    await b.admin`update despatch.webhook_endpoints set status = 'failing' where id = ${first ?? ''}`;
    await b.admin`update despatch.webhook_endpoints set deleted_at = now() where id = ${second ?? ''}`;
    const counts = await b.webhooks.endpointCounts();
    expect(counts.toSorted((one, other) => one.status.localeCompare(other.status))).toEqual([
      { status: 'active', endpoints: 1 },
      { status: 'failing', endpoints: 1 },
    ]);
  });

  test('continues with its event numbers and feed position after a purge of its events', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(3);
    await b.match();
    await b.admin`update despatch.endpoint_feed set purge_on = '2020-01-06'`;
    await b.admin`update despatch.due_deliveries set purge_on = '2020-01-06'`;
    await b.worker`select purge_rows(table_name, 100) from unnest(array['endpoint_feed_default', 'due_deliveries']) as table_name`;
    expect(await b.feed(id)).toEqual([]);
    expect(await b.due(id)).toEqual([]);
    const [sent] = await b.send(1);
    await b.match();
    expect(await b.feed(id)).toEqual([{ seq: 4, message: sent }]);
  });

  test('keeps its event number and feed position when its newest partition is dropped', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.admin`
      create table despatch.endpoint_feed_20200106 partition of despatch.endpoint_feed for values from ('2020-01-06') to ('2020-01-13')`;
    await b.admin`alter table despatch.endpoint_feed_20200106 owner to despatch_definer`;
    await b.send(3);
    await b.match();
    await b.admin`update despatch.endpoint_feed set purge_on = '2020-01-06'`;
    const [dropped] = await b.worker`select drop_partition('endpoint_feed', '2020-01-06') as done`;
    expect(dropped).toEqual({ done: true });
    const kept = await b.admin`select last_seq, matched_to from despatch.endpoint_reach where id = ${id}`;
    expect(kept).toEqual([{ last_seq: 3, matched_to: 3 }]);
    await b.match();
    expect(await b.feed(id)).toEqual([]);
  });

  test('leaves no rows when its tenant is purged', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.admin`insert into despatch.webhook_keys (tenant_id, public_key) values (${b.tenant.tenantId}, 'x')`;
    await b.admin`insert into despatch.endpoint_tests (endpoint_id, tenant_id) values (${id}, ${b.tenant.tenantId})`;
    await b.send(3);
    const { claims: claimed } = await b.match(1);
    await b.webhooks.completeDeliveries(claimed.map(succeeded));
    await b.send(3);
    await b.match();
    await b.admin`update despatch.tenants set owner_uid = 'u', owner_ref = 'n/t', status = 'deleting' where id = ${b.tenant.tenantId}`;
    const purge = () =>
      b.admin<{ outcome: string }[]>`select outcome from despatch.purge_some(${b.tenant.slug}, 'u', 100)`;
    while ((await purge())[0]?.outcome === 'deleted');
    await b.admin`select despatch.end_purge(${b.tenant.slug}, 'u')`;
    const left = await b.admin`
      select 'endpoints' as of from despatch.webhook_endpoints union all select 'keys' from despatch.webhook_keys
      union all select 'feed' from despatch.endpoint_feed union all select 'heads' from despatch.endpoint_heads
      union all select 'due' from despatch.due_deliveries union all select 'attempts' from despatch.delivery_attempts
      union all select 'tests' from despatch.endpoint_tests union all select 'tenant' from despatch.tenants`;
    expect(left).toEqual([]);
  });
});
