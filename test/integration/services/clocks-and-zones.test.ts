import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clockOffsetSeconds } from '#core/store/upkeep/clock-offset.ts';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';
import { seqsOf, setupWebhooks } from '#test/support/setup-webhooks.ts';

let b: Awaited<ReturnType<typeof setupStores>>;

beforeAll(async () => {
  b = await setupStores();
});
afterAll(async () => {
  await b?.[Symbol.asyncDispose]();
});

describe('the time zone and date style of a session have no effect', () => {
  const SESSIONS = [
    { TimeZone: 'Pacific/Kiritimati', DateStyle: 'SQL, DMY' },
    { TimeZone: 'Asia/Kolkata', DateStyle: 'ISO, MDY' },
    { TimeZone: 'America/Los_Angeles', DateStyle: 'Postgres, MDY' },
    { TimeZone: 'Pacific/Pago_Pago', DateStyle: 'German' },
  ];

  /** Runs `ask` on a connection with these settings, as psql would make it, with a superuser's rights. */
  async function ask<Row extends object>(
    session: (typeof SESSIONS)[number],
    work: (sql: Sql) => Promise<Row[]>,
  ): Promise<Row[]> {
    const sql = postgres(b.urls.admin, {
      max: 1,
      onnotice: () => undefined,
      connection: { search_path: 'despatch', ...session },
    });
    try {
      return [...(await work(sql))];
    } finally {
      await sql.end();
    }
  }

  test.each(SESSIONS)(
    'an idempotency generation starts on Monday at midnight UTC with $TimeZone',
    async (session) => {
      const rows = await ask(
        session,
        (sql) => sql<{ at: string; generation: string; turning: boolean }[]>`
          select at, to_char(idempotency_generation(at::timestamptz), 'YYYY-MM-DD') as generation,
            idempotency_turning(at::timestamptz) as turning
          from unnest(array['2026-11-22T23:59:59.999Z', '2026-11-23T00:00:00Z', '2026-11-23T00:04:59.999Z',
            '2026-11-23T00:05:00Z', '2026-11-23T08:00:00Z', '2026-11-22T10:00:00Z']) as at`,
      );
      expect(rows).toEqual([
        { at: '2026-11-22T23:59:59.999Z', generation: '2026-11-16', turning: false },
        { at: '2026-11-23T00:00:00Z', generation: '2026-11-23', turning: true },
        { at: '2026-11-23T00:04:59.999Z', generation: '2026-11-23', turning: true },
        { at: '2026-11-23T00:05:00Z', generation: '2026-11-23', turning: false },
        { at: '2026-11-23T08:00:00Z', generation: '2026-11-23', turning: false },
        { at: '2026-11-22T10:00:00Z', generation: '2026-11-16', turning: false },
      ]);
    },
  );

  test.each(SESSIONS)('retention and partitions are the same with $TimeZone', async (session) => {
    const look = (sql: Sql) => sql<{ what: string }[]>`
      select 'purge ' || to_char(purge_day('2026-11-22T23:30:00Z', n), 'YYYYMMDD') as what from generate_series(1, 8) n
      union all
      select t.task || ' ' || t.parent || ' ' || to_char(t.monday, 'YYYYMMDD') from partition_tasks() t`;
    // Drops all partitions in a transaction that is rolled back, so that upkeep has to make every one.
    const undo = new Error('undo');
    const seen: string[] = [];
    const made: string[] = [];
    await ask(session, async (sql) => {
      await sql
        .begin(async (tx) => {
          for (const { name } of await tx<{ name: string }[]>`
            select c.relname as name from pg_class c where c.relkind = 'r' and c.relname ~ '_[0-9]{8}$'`) {
            await tx.unsafe(`drop table ${name}`);
          }
          seen.push(...(await look(tx as unknown as Sql)).map(({ what }) => what));
          await tx`select make_partition(parent, monday) from partition_tasks() where task = 'make'`;
          const bounds = await tx<{ name: string; bound: string }[]>`
            select c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound from pg_class c
            where c.relname ~ '^messages_[0-9]{8}$' order by 1`;
          made.push(...bounds.map(({ name }) => name));
          throw undo;
        })
        .catch((error: unknown) => {
          if (error !== undo) throw error;
        });
      return [];
    });
    const partitions = await b.admin<{ name: string }[]>`
      select c.relname as name from pg_class c where c.relname ~ '^messages_[0-9]{8}$' order by 1`;
    expect(made).toEqual(partitions.map(({ name }) => name));
    // Late on a Sunday: one day later is Monday evening, which is in the next week.
    expect(seen.filter((what) => what.startsWith('purge'))).toEqual([
      ...Array.from({ length: 7 }, () => 'purge 20261130'),
      'purge 20261207',
    ]);
    expect(seen.filter((what) => what.startsWith('make messages '))).toHaveLength(partitions.length);
  });

  test.each(SESSIONS)('the daily quota counts by the UTC day with $TimeZone', async (session) => {
    const tenant = await seedTenant(b.admin);
    await ask(session, (sql) => acceptBatch(sql, [acceptRow(tenant)]));
    const [usage] = await b.admin<{ isToday: boolean; used: number }[]>`
      select day = (now() at time zone 'UTC')::date as "isToday", used from tenant_usage
      where tenant_id = ${tenant.tenantId}`;
    expect(usage).toEqual({ isToday: true, used: 1 });
  });
});

describe('a clock that ran ahead and was set back', () => {
  const HOURS = 7_200;

  /** Fills the rate window of a subject with calls, `age` seconds before an instant that is `ahead` seconds from now. */
  async function fillWindow(subject: string, calls: number, ahead: number, age: number): Promise<void> {
    await b.admin`delete from rate_windows where subject = ${subject}`;
    await b.admin`
      with at as (select floor(extract(epoch from clock_timestamp()))::bigint + ${ahead} as second)
      insert into rate_windows (subject, second, counts, total)
      select ${subject}, second,
        array(select case when age = ${age} then ${calls}::int else 0 end
          from generate_series(60, 0, -1) age), ${calls} from at`;
  }

  /** Returns by how many seconds the stored window is ahead of the clock, and its counts. */
  async function windowOf(subject: string): Promise<{ ahead: number; total: number; sum: number }> {
    const [row] = await b.admin<{ ahead: number; total: number; sum: number }[]>`
      select (second - extract(epoch from clock_timestamp()))::float8 as ahead, total,
        (select sum(n)::int from unnest(counts) n) as sum from rate_windows where subject = ${subject}`;
    if (row === undefined) throw new Error('no window');
    return row;
  }

  test('does not block an API key: counted calls leave the rate window in time', async () => {
    const tenant = await seedTenant(b.admin);
    const subject = tenant.apiKeyId;
    await fillWindow(subject, 10, HOURS, 40);
    const send = () => acceptBatch(b.api, [acceptRow(tenant, { rate_per_minute: 10 })]);
    const [refused] = await send();
    expect(refused?.verdict).toBe('rate_limited');
    expect(refused?.retryAfter).toBe(21);
    // The refusal stores the window at the corrected time; otherwise every refusal would restart the minute.
    const stored = await windowOf(subject);
    expect(Math.abs(stored.ahead)).toBeLessThan(60);
    expect(stored).toMatchObject({ total: 10, sum: 10 });
    await fillWindow(subject, 10, -21, 40);
    expect((await send())[0]?.verdict).toBe('accepted');
  });

  test('still accepts and counts messages if the rate window has room', async () => {
    const tenant = await seedTenant(b.admin);
    await fillWindow(tenant.apiKeyId, 4, HOURS, 0);
    const [passed] = await acceptBatch(b.api, [acceptRow(tenant, { rate_per_minute: 10 })]);
    expect(passed).toMatchObject({ verdict: 'accepted', remaining: 5 });
    const stored = await windowOf(tenant.apiKeyId);
    expect(Math.abs(stored.ahead)).toBeLessThan(60);
    expect(stored).toMatchObject({ total: 5, sum: 5 });
  });

  test('does not block the rate window of a tenant in take_rate either', async () => {
    const { tenantId } = await seedTenant(b.admin);
    await fillWindow(tenantId, 60, HOURS, 50);
    const take = async () =>
      (await b.api`select passed, remaining, retry_after from take_rate(${tenantId}, 60, 1)`)[0];
    expect(await take()).toEqual({ passed: 0, remaining: 0, retry_after: 11 });
    const stored = await windowOf(tenantId);
    expect(Math.abs(stored.ahead)).toBeLessThan(60);
    expect(stored).toMatchObject({ total: 60, sum: 60 });
    await fillWindow(tenantId, 60, -11, 50);
    expect(await take()).toMatchObject({ passed: 1, remaining: 59 });
  });

  test('moves a future quota day to today: its usage counts today, and a new day starts empty', async () => {
    const tenant = await seedTenant(b.admin);
    const { tenantId } = tenant;
    const set = (days: number, used: number) => b.admin`
      update tenant_usage set day = (now() at time zone 'UTC')::date + ${days}::int, used = ${used}
      where tenant_id = ${tenantId}`;
    const send = async () =>
      (await acceptBatch(b.api, [acceptRow(tenant, { messages_per_day: 5 })]))[0]?.verdict;
    const usage = async () =>
      (
        await b.admin`select day - (now() at time zone 'UTC')::date as ahead, used from tenant_usage
        where tenant_id = ${tenantId}`
      )[0];
    await set(300, 5);
    expect(await send()).toBe('daily_limit_reached');
    expect(await usage()).toEqual({ ahead: 0, used: 5 });
    await set(-1, 5);
    expect(await send()).toBe('accepted');
    await set(300, 3);
    expect(await send()).toBe('accepted');
    expect(await usage()).toEqual({ ahead: 0, used: 4 });
  });

  test('does not block the messages of an account with a rate limit', async () => {
    const tenant = await seedTenant(b.admin);
    const accountId = await seedAccount(b.admin, tenant.tenantId);
    await b.admin`update provider_accounts set rate_limit_per_second = 1 where id = ${accountId}`;
    await b.admin`insert into account_rates (account_id, ticks, taken)
      values (${accountId}, array[token_tick(clock_timestamp() + make_interval(secs => ${HOURS}))], '{1}')`;
    await acceptBatch(b.api, [acceptRow(tenant)], 0);
    const claim = async () =>
      (
        await b.worker`select seq from claim_due(json_build_array(json_build_object('tenant_id', ${tenant.tenantId}::text,
          'account_id', ${accountId}::text, 'most', 10, 'ahead_ms', 0)), 'w', 60000, 1000000)`
      ).length;
    expect(await claim()).toBe(0);
    await expect.poll(claim, { interval: 100 }).toBe(1);
  });

  test('does not keep the events of a webhook endpoint with a rate limit', async () => {
    await using w = await setupWebhooks();
    const id = await w.endpoint({ rate_limit_per_second: 1 });
    await w.send(1);
    await w.match();
    await w.admin`insert into despatch.account_rates (account_id, ticks, taken)
      values (${id}, array[despatch.token_tick(clock_timestamp() + make_interval(secs => ${HOURS}))], '{1}')`;
    expect(await w.claims()).toEqual([]);
    await expect.poll(async () => seqsOf(await w.claims()), { interval: 100 }).toEqual([1]);
  });

  test('of an api causes no early purge: a purge day before the database’s own is rejected', async () => {
    const tenant = await seedTenant(b.admin);
    const [day] = await b.admin<{ due: string; early: string }[]>`
      select purge_day(now(), 7) as due, purge_day(now(), 7) - 14 as early`;
    const send = (days: number, purgeOn: string | undefined) => {
      const at = new Date(Date.now() + days * 86_400_000).toISOString();
      return acceptBatch(b.api, [
        acceptRow(tenant, { enqueued_at: at, purge_on: purgeOn, retention_days: 7 }),
      ]);
    };
    for (const days of [-400, 400]) {
      expect(await send(days, day?.due)).toMatchObject([{ verdict: 'accepted' }]);
      await expect(send(days, day?.early)).rejects.toMatchObject({ code: 'DS001' });
    }
  });
});

test('clockOffsetSeconds measures the offset from the database clock, positive if ahead', async () => {
  for (const role of [b.api, b.worker]) {
    expect(Math.abs(await clockOffsetSeconds(role))).toBeLessThan(2);
    expect(await clockOffsetSeconds(role, () => Date.now() + 90_000)).toBeCloseTo(90, -1);
    expect(await clockOffsetSeconds(role, () => Date.now() - 90_000)).toBeCloseTo(-90, -1);
  }
});
