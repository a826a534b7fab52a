import { describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { lockSchedule, storeSchedule } from '#core/store/messages/schedule.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { advanceTestClock } from '#core/store/messages/test-clock.ts';
import { setupWorkers } from '#test/support/setup-workers.ts';
import { acceptRow, acceptBatch, moveSuspension, seedAccount, seedTenant } from '#test/support/seed.ts';
import { dueRows, setupMessages, states, terms } from '#test/support/setup-messages.ts';

const POLL = { interval: 20 };
const LONG_AGO = new Date(0);
const at = (ms: number): string => new Date(Date.now() + ms).toISOString();
const scheduled = (ms: number, more: object = {}) => ({
  status: 'scheduled',
  send_at: at(ms),
  expires_at: at(ms + 86_400_000),
  ...more,
});

describe('a scheduled message', () => {
  test('is queued and sent at its scheduled time, not before, with an event for each', async () => {
    await using b = await setupWorkers({ sweepMs: 100 });
    b.startWorker();
    const [wake] = await b.send(1, scheduled(1_500), { wake: true });
    await b.send(1);
    await expect.poll(b.statuses, POLL).toEqual({ sent: 2 });
    const events = await b.admin<{ type: string; source: string; late: number }[]>`
      select e.type, e.source, extract(epoch from e.at - m.scheduled_at)::float8 as late
      from despatch.events e join despatch.messages m on m.seq = e.message_seq
      where m.seq = ${wake?.seq ?? 0} order by e.event_seq`;
    expect(events.map(({ type, source }) => [type, source])).toEqual([
      ['message.queued', 'worker'],
      ['message.sent', 'worker'],
    ]);
    for (const { late } of events) expect(late).toBeGreaterThanOrEqual(0);
    const [attempt] = await b.admin<{ wait: number }[]>`
      select extract(epoch from r.started_at - m.scheduled_at)::float8 as wait from despatch.message_results r
      join despatch.messages m using (seq) where m.seq = ${wake?.seq ?? 0}`;
    expect(attempt?.wait).toBeGreaterThanOrEqual(0);
    await expect.poll(feed, POLL).toEqual([0, 1, 1]);

    /** Returns the message's events in the tenant's feed: the acceptance, then two with numbers. */
    async function feed() {
      const rows = await b.admin<{ n: number }[]>`
        select sign(u.number)::int as n from despatch.feed f, unnest(f.seqs, f.numbers) as u (seq, number)
        where u.seq = ${wake?.seq ?? 0} order by f.first_seq`;
      return rows.map(({ n }) => Math.abs(n));
    }
  });

  test('is not claimed before its scheduled time, even if the clock of an api is ahead', async () => {
    await using b = await setupMessages();
    const rows = [
      acceptRow(b.tenant, scheduled(3_600_000)),
      // An api whose clock is ahead stores the message as due.
      acceptRow(b.tenant, { send_at: at(3_600_000) }),
    ];
    await acceptBatch(b.api, rows, 0);
    const seqs = rows.map(({ seq }) => seq);
    expect(await b.store.claim(seqs, terms())).toEqual([]);
    expect(await b.claimDue(10, 10_000)).toEqual([]);
    expect(await dueRows(b)).toEqual([]);
    expect(await b.store.findScheduledDue(b.tenant.tenantId, 10, LONG_AGO)).toEqual([]);
    const waiting = await b.store.findWaiting(seqs);
    expect(Object.fromEntries(waiting.map(({ status, isDue }) => [status, isDue]))).toEqual({
      queued: false,
      scheduled: false,
    });
  });

  test('is found by full and incremental searches once due, with its own priorities', async () => {
    await using b = await setupMessages();
    const { tenantId } = b.tenant;
    const rows = [
      acceptRow(b.tenant, scheduled(-60_000, { priority: 2 })),
      acceptRow(b.tenant, scheduled(-30_000, { priority: 0 })),
      acceptRow(b.tenant, scheduled(-90_000, { test: true })),
      acceptRow(b.tenant, scheduled(60_000, { priority: 0 })),
    ];
    const before = new Date(Date.now() - 1_000);
    await acceptBatch(b.api, rows, 0);
    const priorities = (found: Awaited<ReturnType<typeof dueRows>>) =>
      new Set(found.map((row) => (row.task === 'due' ? row.priority : row.task)));
    const expected = new Set([3, 4, 5]);
    expect(priorities(await dueRows(b))).toEqual(expected);
    expect(priorities(await dueRows(b, { after: before, older: [] }))).toEqual(expected);
    const due = await b.store.findScheduledDue(tenantId, 10, LONG_AGO);
    expect(new Set(due.map(({ seq }) => seq))).toEqual(new Set(rows.slice(0, 3).map(({ seq }) => seq)));
    const [first] = await b.store.findScheduledDue(tenantId, 1, LONG_AGO);
    expect(first?.seq).toBe(rows[1]?.seq);

    const moved = await b.store.moveMessages([rows[0]?.seq ?? 0, rows[1]?.seq ?? 0], 'queued', null);
    expect(moved.size).toBe(2);
    const [urgent] = await b.claimDue(1, 0);
    const [next] = await b.claimDue(1, 0);
    expect([urgent?.seq, next?.seq]).toEqual([rows[1]?.seq, rows[0]?.seq]);
  });

  test('is not queued by a worker that found it due just before it was rescheduled', async () => {
    await using b = await setupMessages();
    const tenantId = b.tenant.tenantId as TenantId;
    const row = acceptRow(b.tenant, scheduled(0));
    await acceptBatch(b.api, [row], 0);
    expect(await b.store.findScheduledDue(tenantId, 10, LONG_AGO)).toHaveLength(1);
    let moving: Promise<ReadonlySet<number>> | undefined;
    await withTenant(b.api, tenantId, async (tx) => {
      await lockSchedule(tx, row.seq);
      moving = b.store.moveMessages([row.seq], 'queued', null);
      await expect.poll(waitingForLocks, POLL).toBe(1);
      const later = { sendAt: Date.now() + 3_600_000, expiresAt: Date.now() + 7_200_000 };
      await storeSchedule(tx, row.seq, later, later.sendAt);
    });
    expect(await moving).toEqual(new Set());
    expect(await states(b)).toEqual(['scheduled']);

    async function waitingForLocks(): Promise<number> {
      const [found] = await b.admin<{ n: number }[]>`
        select count(*)::int as n from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      return found?.n ?? 0;
    }
  });

  test('is held and released with its tenant; only time held past its due time extends expiry', async () => {
    await using b = await setupMessages();
    const { tenantId } = b.tenant;
    const rows = [acceptRow(b.tenant, scheduled(3_600_000)), acceptRow(b.tenant, scheduled(0))];
    await acceptBatch(b.api, rows, 0);
    const expiries = async () =>
      (
        await b.admin<{ at: Date }[]>`
          select expires_at as at from despatch.live_messages order by seq`
      ).map((row) => row.at.getTime());
    const before = await expiries();
    await moveSuspension(b.admin, tenantId, 'billing');
    expect(await b.store.holdTenant(tenantId, 100)).toBe(2);
    expect(await states(b)).toEqual(['held', 'held']);
    expect(await b.store.findScheduledDue(tenantId, 10, LONG_AGO)).toEqual([]);
    await b.admin`update despatch.live_messages set held_at = held_at - interval '2 hours',
      next_attempt_at = case when seq = ${rows[1]?.seq ?? 0} then next_attempt_at - interval '30 minutes' else next_attempt_at end`;
    await moveSuspension(b.admin, tenantId, null);
    expect(await b.store.releaseTenant(tenantId, 100)).toBe(2);
    expect(await states(b)).toEqual(['scheduled', 'scheduled']);
    const [early = 0, late = 0] = (await expiries()).map((expiry, i) => expiry - (before[i] ?? 0));
    expect(early).toBe(0);
    expect(late).toBeGreaterThanOrEqual(30 * 60_000);
    expect(late).toBeLessThan(35 * 60_000);
    const due = await b.store.findScheduledDue(tenantId, 10, LONG_AGO);
    expect(due.map(({ seq }) => seq)).toEqual([rows[1]?.seq]);
  });

  test('does not count in the backlog until it is queued', async () => {
    await using b = await setupMessages();
    const rows = Array.from({ length: 4 }, (_, i) => acceptRow(b.tenant, scheduled(i === 0 ? 0 : 60_000)));
    const totals = async () => {
      const { backlog, scheduled } = await b.gauges.messageTotals();
      return [backlog, scheduled];
    };
    await acceptBatch(b.api, [...rows, acceptRow(b.tenant)], 0);
    expect(await totals()).toEqual([1, 4]);
    const [a = 0, c = 0, d = 0] = rows.map(({ seq }) => seq);
    await b.store.moveMessages([a], 'queued', null);
    expect(await totals()).toEqual([2, 3]);
    await b.store.moveMessages([c], 'canceled', null);
    await b.store.moveMessages([d], 'held', null);
    expect(await totals()).toEqual([2, 2]);
    await b.store.moveMessages([d], 'canceled', null);
    expect(await totals()).toEqual([2, 1]);
  });

  test('expires without a call if no worker ran before its expiry', async () => {
    await using b = await setupWorkers({ sweepMs: 100 });
    await b.send(2, { status: 'scheduled', send_at: at(-120_000), expires_at: at(-60_000) }, { wake: false });
    b.startWorker();
    await expect.poll(b.statuses, POLL).toEqual({ expired: 2 });
    expect(b.twilio.received).toEqual([]);
  });
});

test('thousands of scheduled messages of one tenant due at once do not delay another tenant', async () => {
  await using b = await setupWorkers({ sweepMs: 200, inFlightMax: 16 });
  const other = await seedTenant(b.admin);
  await seedAccount(b.admin, other.tenantId);
  const limits = { rate_per_minute: 1_000_000, messages_per_day: 1_000_000 };
  for (let i = 0; i < 5; i += 1) {
    await acceptBatch(
      b.api,
      Array.from({ length: 1_000 }, () => acceptRow(b.tenant, scheduled(0, limits))),
    );
  }
  await b.send(20, scheduled(0), { of: other, wake: false });
  b.startWorker();
  const left = async () => {
    const rows = await b.admin<{ own: boolean; n: number }[]>`
      select tenant_id = ${other.tenantId} as own, count(*)::int as n from despatch.live_messages group by 1`;
    return { others: rows.find(({ own }) => !own)?.n ?? 0, own: rows.find(({ own }) => own)?.n ?? 0 };
  };
  await expect.poll(async () => (await left()).own, POLL).toBe(0);
  expect((await left()).others).toBeGreaterThan(3_000);
  const [scheduledYet] = await b.admin<{ n: number }[]>`
    select count(*)::int as n from despatch.live_messages where status = 'scheduled'`;
  expect(scheduledYet?.n).toBeLessThan(5_000);
});

test('searches and claims do not read past tens of thousands of scheduled messages', async () => {
  await using b = await setupMessages();
  const { tenantId } = b.tenant;
  await acceptBatch(b.api, [acceptRow(b.tenant, scheduled(-1_000))], 0);
  // Half of them are due at the same instant.
  await b.admin`
    insert into despatch.live_messages (seq, purge_on, tenant_id, account_id, due_at, next_attempt_at, status, priority, channel,
      test, pinned, expires_at, updated_at)
    select 900000000 + n, l.purge_on, l.tenant_id, l.account_id, d.at, d.at, 'scheduled', l.priority, l.channel, l.test, l.pinned,
      l.expires_at, l.updated_at
    from despatch.live_messages l, generate_series(1, 40000) n, lateral (
      select case when n % 2 = 0 then l.due_at else now() + interval '1 day' end as at) d`;
  await b.admin`vacuum analyze despatch.live_messages`;
  await acceptBatch(b.api, [acceptRow(b.tenant)], 0);
  const pages = async (query: string) => {
    await b.admin.unsafe(query);
    const text = JSON.stringify(await b.admin.unsafe(`explain (analyze, buffers) ${query}`));
    return Number(/shared hit=(\d+)/.exec(text)?.[1] ?? 0);
  };
  const lane = JSON.stringify([{ tenant_id: tenantId, account_id: b.accountId, most: 10, ahead_ms: 10_000 }]);
  const looks = [
    `select * from despatch.due_lanes()`,
    `select * from despatch.due_lanes(now() - interval '5 s', '[]')`,
    `select * from despatch.find_waiting_due('${tenantId}', '${b.accountId}', 200, 5000, null)`,
    `select * from despatch.find_scheduled_due('${tenantId}', 10, '-infinity')`,
    `select despatch.wake_deferred('${b.accountId}')`,
    `select * from despatch.claim_due('${lane}', 'w', 1000, 100000)`,
  ];
  const read: [string, number][] = [];
  for (const look of looks) read.push([look.slice(0, 50), await pages(look)]);
  expect(read.filter(([, n]) => n === 0 || n > 900)).toEqual([]);
});

test('advancing the test clock by three days sends scheduled test messages, but no live ones', async () => {
  await using b = await setupWorkers({ sweepMs: 100 });
  b.startWorker();
  await b.send(3, scheduled(48 * 3_600_000, { test: true }), { wake: false });
  await b.send(1, scheduled(48 * 3_600_000), { wake: false });
  const advance = (ms: number) =>
    withTenant(b.api, b.tenant.tenantId as TenantId, (tx) => advanceTestClock(tx, ms, 100));
  expect(await advance(24 * 3_600_000)).toEqual({ aheadMs: 24 * 3_600_000, moved: 3 });
  expect(await b.statuses()).toEqual({ scheduled: 4 });
  expect(await advance(48 * 3_600_000)).toEqual({ aheadMs: 72 * 3_600_000, moved: 3 });
  await expect.poll(b.statuses, POLL).toEqual({ scheduled: 1, delivered: 3 });
  expect(b.twilio.received).toEqual([]);
});

test('advancing the test clock by 72 hours triggers the receipt timeout of a test message', async () => {
  await using b = await setupWorkers({ sweepMs: 100 });
  const worker = b.startWorker();
  await b.send(1, { test: true, recipient: '+15550000007', address: '+15550000007' });
  await expect.poll(b.statuses, POLL).toEqual({ sent: 1 });
  const moved = await withTenant(b.api, b.tenant.tenantId as TenantId, (tx) =>
    advanceTestClock(tx, 72 * 3_600_000, 100),
  );
  expect(moved?.moved).toBe(1);
  await worker.stop();
  await b.store.expireReceipts(10, [], 72 * 3_600_000);
  expect(await b.statuses()).toEqual({ unknown: 1 });
});
