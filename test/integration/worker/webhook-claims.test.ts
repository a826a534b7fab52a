import { describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { decideHealth, type EndpointCall } from '#core/domain/webhooks/endpoint-health.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { deleteEndpoint, moveEndpointTo } from '#core/store/webhooks/webhook-endpoints.ts';
import { moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import {
  direct,
  LEASE_MS,
  partsOf,
  seqsOf,
  setupWebhooks,
  succeeded,
  upTo,
} from '#test/support/setup-webhooks.ts';

describe('webhook claims', () => {
  test('take endpoints in turn, even if one of them has a large backlog', async () => {
    await using b = await setupWebhooks();
    const many = await b.endpoint();
    await b.admin`
      insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      select ${many}, ${b.tenant.tenantId}, n * 100 + 1, n * 100 + 100, current_date + 30, now() - interval '1 hour' from generate_series(0, 999) n`;
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const few = await b.endpoint({}, other.tenantId);
    await b.send(3, other);
    await b.match(0, b.webhooks, LEASE_MS, [other.tenantId]);
    for (const _ of upTo(3)) {
      const claimed = await b.claims();
      expect(claimed.filter(({ endpoint }) => endpoint.id === many)).toHaveLength(1);
    }
    const told =
      await b.admin`select from despatch.due_deliveries where endpoint_id = ${few} and claim is not null`;
    expect(told).toHaveLength(1);
    // Claims one round in several calls, each with its own limits.
    await b.over();
    const first = await b.claim({ endpointsMax: 1 });
    expect(first.next).not.toBeNull();
    const second = await b.claim({ endpointsMax: 1, after: first.next });
    expect(second.next).toBeNull();
    expect((await b.claim({ busy: [many] })).claims).toEqual([]);
  });

  test('take no more than the limit per tenant from a tenant with many endpoints', async () => {
    await using b = await setupWebhooks();
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    for (const _ of upTo(8)) await b.endpoint();
    const few = await b.endpoint({}, other.tenantId);
    await b.send(1);
    await b.send(1, other);
    await b.match(0, b.webhooks, LEASE_MS, [b.tenant.tenantId, other.tenantId]);
    const claimed = await b.claims({ tenantClaimsMax: 3 });
    expect(claimed.filter(({ endpoint }) => endpoint.id !== few)).toHaveLength(3);
    expect(claimed.filter(({ endpoint }) => endpoint.id === few)).toHaveLength(1);
    // The rest is due as before.
    expect(await b.claims({ tenantClaimsMax: 8 })).toHaveLength(5);
  });

  test('succeed for other endpoints if the events of one endpoint cannot be read', async () => {
    await using b = await setupWebhooks();
    const ids: string[] = [];
    for (const _ of upTo(3)) ids.push(await b.endpoint());
    await b.send(2);
    await b.match();
    const [damaged] = await b.admin<{ id: string }[]>`
      select id from despatch.due_deliveries where endpoint_id = ${ids[1] ?? ''}`;
    const refusing = new Proxy(b.worker, {
      apply(sql, _self, [strings, ...values]: [TemplateStringsArray, ...unknown[]]) {
        const isRefused =
          strings.join('').includes('read_deliveries') &&
          JSON.stringify(values[0]).includes(`"due_id":${damaged?.id}`);
        return isRefused ? sql`select 1 / 0` : sql(strings, ...(values as never[]));
      },
    });
    const { claims, failures } = await b.claim({}, webhookStore(refusing, direct, b.loadIds));
    expect(new Map(claims.map(({ endpoint, events }) => [endpoint.id, events.length]))).toEqual(
      new Map([ids[0], ids[2]].map((id) => [id, 2])),
    );
    expect(failures.map(({ message }) => message)).toEqual([`Events of endpoint ${ids[1]} cannot be read`]);
  });

  test('return the events and the endpoint, with its previous secret until that expires', async () => {
    await using b = await setupWebhooks();
    const [key] = await b.admin<{ id: string }[]>`
      insert into despatch.webhook_keys (tenant_id, public_key, ciphertext) values (${b.tenant.tenantId}, 'x', 'vault:v1:k') returning id`;
    const id = await b.endpoint({
      previous_secret: 'vault:v1:old',
      previous_until: new Date(Date.now() + 60_000),
      signatures: ['v1', 'v1a'],
      headers: b.admin.json({ 'x-a': 'b' }),
    });
    const [sent] = await b.send(1);
    await b.match();
    const [claimed] = await b.claims();
    expect(claimed).toMatchObject({
      attempts: 0,
      manual: false,
      endpoint: {
        id,
        tenantId: b.tenant.tenantId,
        url: 'https://hooks.test/',
        headers: { 'x-a': 'b' },
        secret: 'vault:v1:s',
        previousSecret: 'vault:v1:old',
        signingKey: { id: key?.id, ciphertext: 'vault:v1:k' },
        clientCertificate: null,
        status: 'active',
        version: 1,
      },
      events: [{ seq: 1, messageSeq: sent, event: { type: 'message.queued', seq: 1 } }],
    });
    await b.admin`update despatch.webhook_endpoints set previous_until = now()`;
    await b.over();
    expect((await b.claims())[0]?.endpoint.previousSecret).toBeNull();
    await b.admin`select despatch.forget_replaced_secrets()`;
    expect(
      await b.admin`select from despatch.webhook_endpoints where previous_secret is not null`,
    ).toHaveLength(0);
  });

  test('belong to one worker until their lease is over, and then to the next', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    await b.send(2);
    const [lost] = (await b.match(1)).claims;
    if (lost === undefined) throw new Error('nothing was claimed');
    const other = webhookStore(b.worker, direct, b.loadIds);
    expect(await b.claims({}, other)).toEqual([]);
    await b.over();
    const [found] = await b.claims({}, other);
    expect(found && seqsOf([found])).toEqual([1, 2]);
    expect(found?.claim).not.toBe(lost.claim);
    // A completion after the lease changes nothing.
    const late = {
      ...succeeded(lost),
      again: [{ seq: 2, attempts: 1, dueAt: new Date(), messageSeq: null }],
      uncalled: [{ first: 1, last: 1 }],
    };
    expect(await b.webhooks.completeDeliveries([late])).toEqual({ stale: 1 });
    expect(await b.admin`select from despatch.delivery_attempts`).toHaveLength(0);
    expect(await b.due(id)).toMatchObject([{ first: 1, last: 2, isClaimed: true }]);
    expect(found && (await other.completeDeliveries([succeeded(found)]))).toEqual({ stale: 0 });
    expect(await b.due(id)).toEqual([]);
    expect(await b.admin`select from despatch.delivery_attempts where succeeded`).toHaveLength(2);
  });

  test('by concurrent workers never return an event twice', async () => {
    await using b = await setupWebhooks();
    await b.endpoint();
    await b.endpoint({ ordered: true });
    await b.endpoint({ rate_limit_per_second: 500 });
    await b.send(400);
    await b.matchAll();
    const workers = upTo(4).map(() => webhookStore(b.worker, direct, b.loadIds));
    const claimed = (
      await Promise.all(workers.flatMap((worker) => [b.claims({}, worker), b.claims({}, worker)]))
    ).flat();
    const events = claimed.flatMap(({ endpoint, events: told }) =>
      told.map(({ seq }) => `${endpoint.id} ${seq}`),
    );
    expect(events.length).toBeGreaterThan(200);
    expect(new Set(events).size).toBe(events.length);
    const rest = await b.admin<{ n: number }[]>`
      select sum(last_seq - first_seq + 1)::integer as n from despatch.due_deliveries`;
    expect(rest[0]?.n).toBe(1_200);
  });

  test('try a failing endpoint with one event by one worker, and not again before that is over', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ status: 'failing', failures: 4 });
    await b.send(5);
    await b.match();
    const workers = upTo(4).map(() => webhookStore(b.worker, direct, b.loadIds));
    const claimed = (await Promise.all(workers.map((worker) => b.claims({}, worker)))).flat();
    expect(seqsOf(claimed)).toEqual([1]);
    expect(claimed[0]?.isProbe).toBe(true);
    expect(await b.due(id)).toMatchObject([
      { first: 1, last: 1, isClaimed: true },
      { first: 2, last: 5, isClaimed: false },
    ]);
    await b.over();
    expect(await b.claims()).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set call_at = now()`;
    expect(seqsOf(await b.claims())).toHaveLength(1);
    await b.admin`update despatch.webhook_endpoints set status = 'active', call_at = '-infinity'`;
    const [recovered, ...others] = await b.claims();
    if (recovered === undefined) throw new Error('nothing was claimed');
    expect([seqsOf([recovered]), recovered.isProbe, others]).toEqual([[2, 3, 4, 5], false, []]);
  });

  test('probe a failing endpoint again at once only if its last probe was returned uncalled', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ status: 'failing', failures: 4 });
    await b.send(3);
    await b.match();
    const probe = async () => {
      const [claim, ...others] = await b.claims();
      if (claim === undefined) throw new Error('nothing was claimed');
      expect([seqsOf([claim]), others]).toEqual([[expect.any(Number)], []]);
      return claim;
    };
    const uncalled = await probe();
    expect(await b.claims()).toEqual([]);
    const { seq = 0 } = uncalled.events[0] ?? {};
    await b.webhooks.completeDeliveries([
      { ...partsOf(uncalled), attempts: [], again: [], uncalled: [{ first: seq, last: seq }] },
    ]);
    const called = await probe();
    await b.webhooks.completeDeliveries([succeeded(called)]);
    expect(await b.claims()).toEqual([]);
    // A claim that is given back does not undo a change that another call stored meanwhile.
    await b.admin`update despatch.webhook_endpoints set call_at = now() where id = ${id}`;
    const late = await probe();
    await b.webhooks.changeEndpoint(id, 1, (now) => ({ ...now, callAt: new Date(Date.now() + 300_000) }));
    await b.webhooks.completeDeliveries([{ ...partsOf(late), attempts: [], again: [], uncalled: [] }]);
    expect(await b.claims()).toEqual([]);
  });

  test('of a probe tell when its lease ends, so that a wait which another answer asks for outlasts it', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ status: 'failing', failures: 4 });
    await b.send(3);
    await b.match();
    const failure = { succeeded: false, status: 503 };
    const end = (call: Omit<EndpointCall, 'at'>) =>
      b.webhooks.changeEndpoint(id, 1, (now, at) => decideHealth(now, { ...call, at }, 0.5));
    const secondsLeft = async () => {
      const [row] = await b.admin<{ left: number }[]>`
        select extract(epoch from call_at - now())::float8 as left from despatch.webhook_endpoints where id = ${id}`;
      return row?.left ?? Number.NaN;
    };
    const [probe] = await b.claims();
    const { isProbe = false, probeUntil } = probe ?? {};
    const until = (probeUntil?.getTime() ?? Number.NaN) - Date.now();
    expect(Math.abs((await secondsLeft()) - until / 1_000)).toBeLessThan(5);
    // Without another answer the next probe does not wait for the lease.
    await end({ ...failure, isProbe, probeUntil });
    expect(await secondsLeft()).toBeLessThan(15);
    await b.admin`update despatch.webhook_endpoints set call_at = now() where id = ${id}`;
    const [next] = await b.claims();
    await end({ ...failure, retryAfterMs: 600_000, isProbe: false });
    await end({ ...failure, isProbe: next?.isProbe ?? false, probeUntil: next?.probeUntil });
    expect(await secondsLeft()).toBeGreaterThan(590);
    // The end of a shorter wait is not stored beside the lease, so it lasts until the lease ends.
    await b.admin`update despatch.webhook_endpoints set call_at = now() where id = ${id}`;
    const [last] = await b.claims();
    const leaseSeconds = await secondsLeft();
    await end({ ...failure, retryAfterMs: 1_000, isProbe: false });
    await end({ ...failure, isProbe: last?.isProbe ?? false, probeUntil: last?.probeUntil });
    expect(await secondsLeft()).toBeGreaterThan(leaseSeconds - 5);
  });

  test('skip paused and postponed endpoints, and take their events afterwards', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ status: 'paused' });
    await b.send(2);
    await b.match(5);
    for (const _ of upTo(3)) expect(await b.claims()).toEqual([]);
    expect(await b.feed(id)).toHaveLength(2);
    await b.admin`update despatch.webhook_endpoints set status = 'active', call_at = now() + interval '1 hour'`;
    expect(await b.claims()).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set call_at = now()`;
    expect(seqsOf(await b.claims())).toEqual([1, 2]);
  });

  test('tell since when events wait that can be called for, and whether their endpoint has a pace of its own', async () => {
    await using b = await setupWebhooks();
    const HOUR_MS = 3_600_000;
    const [idle, slow] = [await b.endpoint(), await b.endpoint({ rate_limit_per_second: 100 })];
    const [paused, held] = [await b.endpoint({ status: 'paused' }), await b.endpoint()];
    const ordered = await b.endpoint({ ordered: true });
    await b.send(1);
    await b.match();
    await b.admin`update despatch.due_deliveries set due_at = now() - interval '1 hour'`;
    await b.admin`update despatch.webhook_endpoints set updated_at = now() - interval '1 hour'`;
    await b.admin`update despatch.webhook_endpoints set call_at = now() - interval '1 second' where id = ${held}`;
    await withTenant(b.api, b.tenant.tenantId as TenantId, (tx) =>
      moveEndpointTo(b.tenant.tenantId as TenantId, tx, paused, 'resume'),
    );
    const claims = await b.claims();
    const waitOf = (id: string) => {
      const claim = claims.find(({ endpoint }) => endpoint.id === id);
      const waitsSince = claim?.waitsSince ?? Number.NaN;
      return { hours: Math.round((Date.now() - waitsSince) / HOUR_MS), isPaced: claim?.isPaced };
    };
    expect([idle, paused, held].map(waitOf)).toEqual([1, 0, 0].map((hours) => ({ hours, isPaced: false })));
    expect([slow, ordered].map(waitOf)).toEqual([1, 1].map((hours) => ({ hours, isPaced: true })));
  });

  test('continue for a suspended tenant and end with the deletion of the endpoint', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ event_types: ['tenant.*'] });
    await moveSuspension(b.admin, b.tenant.tenantId, 'manual');
    await b.number();
    await b.match();
    expect((await b.claims())[0]?.events[0]?.event.type).toBe('tenant.suspended');
    await b.over();
    await b.admin`update despatch.webhook_endpoints set deleted_at = now()`;
    expect(await b.claims()).toEqual([]);
    expect(await b.due(id)).toEqual([]);
  });

  test('delete the due events of deleted endpoints in bounded steps', async () => {
    await using b = await setupWebhooks();
    const gone = [await b.endpoint(), await b.endpoint()];
    await b.admin`
      insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      select e, ${b.tenant.tenantId}, n, n, current_date + 30, now() + (n % 2) * interval '1 hour' - n * interval '1 second'
      from unnest(${gone}::uuid[]) e, generate_series(1, 700) n`;
    const stays = await b.endpoint();
    await b.send(3);
    await b.matchAll();
    await b.admin`delete from despatch.due_deliveries where endpoint_id = any (${gone}::uuid[]) and last_seq - first_seq > 0`;
    for (const id of gone)
      await withTenant(b.api, b.tenant.tenantId as TenantId, (tx) =>
        deleteEndpoint(b.tenant.tenantId as TenantId, tx, id),
      );
    const left = async () =>
      (await b.admin`select from despatch.due_deliveries where endpoint_id = any (${gone}::uuid[])`).length;
    expect(await left()).toBe(1_400);
    const claimed = await b.claims();
    expect(claimed.map(({ endpoint }) => endpoint.id)).toEqual([stays]);
    expect(await left()).toBe(400);
    expect(await b.claims()).toEqual([]);
    expect(await left()).toBe(0);
  });

  test('take no more events per second than the rate limit of the endpoint allows', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ rate_limit_per_second: 3 });
    await b.send(10);
    await b.match(5);
    expect((await b.due(id)).map(({ isClaimed }) => isClaimed)).toEqual([false]);
    // Just before the end of a second of the clock: its next one permits nothing new.
    await b.admin`select pg_sleep(greatest(0, 0.9 - extract(epoch from clock_timestamp()) % 1)::float8)`;
    const claimed: { seq: number; before: number; after: number }[] = [];
    while (claimed.length < 10) {
      const before = performance.now();
      const seqs = seqsOf(await b.claims());
      claimed.push(...seqs.map((seq) => ({ seq, before, after: performance.now() })));
    }
    expect(claimed.map(({ seq }) => seq)).toEqual(upTo(10));
    for (const [i, fourth] of claimed.slice(3).entries())
      expect(fourth.after - (claimed[i]?.before ?? 0)).toBeGreaterThanOrEqual(1_000);
  });

  test('take all due events of an ordered endpoint in order', async () => {
    await using b = await setupWebhooks();
    await b.endpoint({ ordered: true });
    for (const _ of upTo(5)) {
      await b.send(1);
      await b.match();
    }
    expect(seqsOf(await b.claims())).toEqual([1, 2, 3, 4, 5]);
    expect(await b.claims()).toEqual([]);
    // After the leases, an event that was called for before goes out in its place too.
    await b.admin`update despatch.due_deliveries set message_seq = 7, attempts = 1 where first_seq = 3`;
    await b.over();
    expect(seqsOf(await b.claims())).toEqual([1, 2, 3, 4, 5]);
  });

  test('of an ordered endpoint stop before an event that another transaction has locked', async () => {
    await using b = await setupWebhooks();
    await b.endpoint({ ordered: true });
    for (const _ of upTo(4)) {
      await b.send(1);
      await b.match();
    }
    await b.admin.begin(async (tx) => {
      await tx`select from despatch.due_deliveries where first_seq = 3 for update`;
      expect(seqsOf(await b.claims())).toEqual([1, 2]);
    });
    await b.admin`delete from despatch.due_deliveries where claim is not null`;
    expect(seqsOf(await b.claims())).toEqual([3, 4]);
  });

  test('use rate limit tokens of an ordered endpoint only for the events that they return', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint({ ordered: true, rate_limit_per_second: 90 });
    await b.send(60);
    await b.match();
    // The later events wait for longer, as where a person sends the earlier ones again.
    await b.admin`delete from despatch.due_deliveries`;
    await b.admin`
      insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
      select ${id}, ${b.tenant.tenantId}, n, n + size - 1, current_date + 30, now() - size * interval '1 second'
      from (select n, 1 as size from generate_series(1, 20) n union all select n, 2 from generate_series(21, 59, 2) n) x`;
    expect(seqsOf(await b.claims())).toEqual(upTo(20));
    expect(await b.admin`select taken from despatch.account_rates where account_id = ${id}`).toEqual([
      { taken: [20] },
    ]);
  });

  test('find rows that an earlier search skipped because they were busy, paused or due later', async () => {
    await using b = await setupWebhooks();
    const id = await b.endpoint();
    // A round that found nothing: later rounds do not look at older rows again.
    expect(await b.claim()).toEqual({ claims: [], next: null, failures: [] });
    await b.send(1);
    await b.match();
    expect(await b.claims({ busy: [id] })).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set status = 'paused'`;
    expect(await b.claims()).toEqual([]);
    await b.admin`update despatch.webhook_endpoints set status = 'active'`;
    const [claimed] = await b.claims({ leaseMs: 300 });
    expect(claimed && seqsOf([claimed])).toEqual([1]);
    await new Promise((resolve) => void setTimeout(resolve, 350));
    expect(seqsOf(await b.claims())).toEqual([1]);
  });
});

/** Rows of a paused endpoint or with a later due time are not in the index ranges that a look reads. */
test('a search for webhook claims reads no rows of paused endpoints and none due later', async () => {
  await using b = await setupWebhooks();
  const [paused, later, idle] = [
    await b.endpoint({ status: 'paused' }),
    await b.endpoint(),
    await b.endpoint(),
  ];
  const queue = (id: string, dueAt: string) => b.admin`
    insert into despatch.due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at)
    select ${id}, ${b.tenant.tenantId}, n, n, current_date + 30, ${dueAt}::text::timestamptz from generate_series(1, 20000) n`;
  const hour = 3_600_000;
  for (const [id, at] of [
    [paused, Date.now() - hour],
    [later, Date.now() + hour],
  ] as const)
    await queue(id, new Date(at).toISOString());
  await queue(later, 'infinity');
  const connection = await b.admin.reserve();
  await connection`set search_path = despatch`;
  const counted = webhookStore(connection, direct, b.loadIds);
  const pages = async (): Promise<number> => {
    await connection`select pg_stat_force_next_flush()`;
    const [row] = await connection<{ n: number }[]>`
      select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::integer as n from pg_statio_user_tables
      where schemaname = 'despatch' and relname = 'due_deliveries'`;
    return row?.n ?? 0;
  };
  try {
    // The first look reads all rows, the second one those that became due since.
    for (const _ of upTo(2)) {
      const before = await pages();
      expect(await b.claims({}, counted)).toEqual([]);
      expect((await pages()) - before).toBeLessThan(100);
    }
    await b.send(1);
    await b.matchAll();
    const claimed = await b.claims({}, counted);
    expect(claimed.map(({ endpoint }) => endpoint.id)).toEqual([later, idle].toSorted());
  } finally {
    connection.release();
  }
});
