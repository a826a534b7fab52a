import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isPlaceRefused } from '#core/domain/database-fault.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { purgeDay } from '#core/domain/purge-day.ts';
import { transactionWithin } from '#core/store/tenant-scope.ts';
import { acceptBatch, acceptRow, moveSuspension, seedTenant } from '#test/support/seed.ts';
import { testDatabase } from '#test/support/servers.ts';

async function setup() {
  const database = await testDatabase();
  return {
    admin: database.open('admin', 8),
    /** Two pools stand for two api processes. */
    api: database.open('api', 8),
    otherApi: database.open('api', 8),
    [Symbol.asyncDispose]: () => database[Symbol.asyncDispose](),
  };
}

const hex = () => randomBytes(32).toString('hex');
const verdicts = (rows: readonly { verdict: string }[]) => rows.map((row) => row.verdict);
const count = (rows: readonly { verdict: string }[], verdict: string) =>
  rows.filter((row) => row.verdict === verdict).length;

test('a transaction that is late is told to have failed, and is never committed', async () => {
  await using b = await setup();
  const { tenantId } = await seedTenant(b.admin);
  let work: Promise<unknown> = Promise.resolve();
  const change = (tx: TransactionSql) => {
    work = tx`update despatch.tenants set name = 'Late' where id = ${tenantId}`.then(
      () => tx`select pg_sleep(0.5)`,
    );
    return work;
  };
  const late = transactionWithin(b.admin, change, 100);
  await expect(late).rejects.toMatchObject({ dependency: 'postgres', fault: 'deadline' });
  await work;
  const committed = async () => {
    // The lock on the row ends with the transaction, so this waits until the late change is rolled back.
    const [row] = await b.admin`select name from despatch.tenants where id = ${tenantId} for update`;
    return row?.['name'] === 'Late';
  };
  expect(await committed()).toBe(false);
});

describe('acceptance', () => {
  test('an accepted message and what waits of it are one commit', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const row = acceptRow(tenant);
    expect(verdicts(await acceptBatch(b.api, [row]))).toEqual(['accepted']);
    const [stored] = await b.admin`
      select l.status, l.account_id, l.due_at - m.enqueued_at > interval '4 seconds' as later, m.seq, m.purge_on, m.id
      from despatch.messages m join despatch.live_messages l using (seq, purge_on)`;
    const { seq, purge_on, id, account_id } = row;
    expect(stored).toEqual({ status: 'queued', later: true, seq, purge_on, id, account_id });
  });

  test.each([
    ['behind', -3_600_000],
    ['ahead', 3_600_000],
  ])(
    'a lifetime is counted by the database, also for an api whose clock is an hour %s',
    async (_, offsetMs) => {
      await using b = await setup();
      const tenant = await seedTenant(b.admin);
      const now = Date.now() + offsetMs;
      const row = acceptRow(tenant, {
        enqueued_at: new Date(now).toISOString(),
        expires_at: new Date(now + 600_000).toISOString(),
        lifetime_ms: 600_000,
      });
      await acceptBatch(b.api, [row]);
      const [state] = await b.admin`
      select extract(epoch from expires_at - now())::float8 as seconds from despatch.live_messages`;
      expect(state?.['seconds']).toBeGreaterThan(590);
      expect(state?.['seconds']).toBeLessThanOrEqual(600);
    },
  );

  test('a purge day that is too early is refused, and nothing is stored', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const tooEarly = purgeDay(Date.now() - 7 * 86_400_000, 30);
    await expect(
      acceptBatch(b.api, [acceptRow(tenant), acceptRow(tenant, { purge_on: tooEarly })]),
    ).rejects.toMatchObject({ code: 'DS001' });
    const [stored] = await b.admin`select count(*) as n from despatch.messages`;
    expect(stored?.['n']).toBe(0);
  });

  test('a number that the database has given out twice is nobody’s fault but its own, and the first message keeps it', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [first, later] = [acceptRow(tenant), acceptRow(tenant, { retention_days: 90 })];
    await acceptBatch(b.api, [first]);
    for (const place of [{ seq: first.seq }, { seq: first.seq, purge_on: later.purge_on }]) {
      const again = acceptBatch(b.otherApi, [acceptRow(tenant), acceptRow(tenant, place)]);
      await expect(again).rejects.toSatisfy(isPlaceRefused);
    }
    expect(await b.admin`select id from despatch.messages`).toEqual([{ id: first.id }]);
  });

  test('retention ends on a Monday, never before its time and less than a week after it', async () => {
    await using b = await setup();
    const rows = await b.admin<{ accepted: Date; n: number; purge_on: string; served: string[] }[]>`
      select d as accepted, n, purge_on, array(select to_char(today, 'YYYY-MM-DD')
        from generate_series(purge_on - 1, purge_on, interval '1 day') today
        where despatch.has_served('messages', purge_on, today::date)) as served
      from generate_series('2026-01-01T00:00:00Z'::timestamptz, '2026-03-01', interval '5 hours 59 minutes') d,
      unnest(array[1, 7, 30, 90]) n, despatch.purge_day(d, n) purge_on`;
    for (const row of rows) {
      const dropped = new Date(`${row.purge_on}T00:00:00Z`);
      const promised = row.accepted.getTime() + row.n * 86_400_000;
      expect(dropped.getUTCDay()).toBe(1);
      expect(dropped.getTime()).toBeGreaterThanOrEqual(promised);
      expect(dropped.getTime()).toBeLessThan(promised + 7 * 86_400_000);
      expect(row.served).toEqual([row.purge_on]);
      expect(purgeDay(row.accepted.getTime(), row.n)).toBe(row.purge_on);
    }
  });

  test('exactly the daily limit passes whatever the concurrency and the number of processes', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const row = () => acceptRow(tenant, { messages_per_day: 100 });
    const batches = await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        acceptBatch(i % 2 === 0 ? b.api : b.otherApi, [row(), row(), row(), row(), row()]),
      ),
    );
    expect(count(batches.flat(), 'accepted')).toBe(100);
    expect(count(batches.flat(), 'daily_limit_reached')).toBe(100);
    const [stored] = await b.admin`select count(*) as n from despatch.messages`;
    expect(stored?.['n']).toBe(100);
  });

  test('a daily refusal names the seconds to midnight UTC', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [refused] = await acceptBatch(b.api, [acceptRow(tenant, { messages_per_day: 0 })]);
    const toMidnight = Math.ceil((Date.UTC(2999, 0, 1) - Date.now()) / 1000) % 86_400;
    expect(Math.abs((refused?.retryAfter ?? 0) - toMidnight)).toBeLessThanOrEqual(2);
  });

  test('exactly a minute of requests passes in a burst over two processes, and refused ones do not count', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const row = () => acceptRow(tenant, { rate_per_minute: 30 });
    const batches = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        acceptBatch(i % 2 === 0 ? b.api : b.otherApi, [row(), row(), row()]),
      ),
    );
    expect(count(batches.flat(), 'accepted')).toBe(30);
    const refused = batches.flat().filter((verdict) => verdict.verdict === 'rate_limited');
    expect(refused).toHaveLength(60);
    for (const verdict of refused) expect(verdict.retryAfter).toSatisfy((s: number) => s >= 1 && s <= 61);
    const [usage] =
      await b.admin`select used from despatch.tenant_usage where tenant_id = ${tenant.tenantId}`;
    expect(usage?.['used']).toBe(30);
  });

  test('a rolling minute never holds more than the limit, and frees places as old requests leave it', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    await acceptBatch(b.api, [
      acceptRow(tenant, { rate_per_minute: 2 }),
      acceptRow(tenant, { rate_per_minute: 2 }),
    ]);
    // 59 and 62 seconds leave room for the time that the test itself takes.
    await shiftWindow(b.admin, 59);
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant, { rate_per_minute: 2 })]))).toEqual([
      'rate_limited',
    ]);
    await shiftWindow(b.admin, 62);
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant, { rate_per_minute: 2 })]))).toEqual([
      'accepted',
    ]);
  });

  test('refused test messages take no room from live ones of the same commit', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const other = await seedTenant(b.admin);
    const rows = [
      ...Array.from({ length: 5 }, () =>
        acceptRow({ ...tenant, apiKeyId: other.apiKeyId }, { test: true, backlog_max: 2 }),
      ),
      ...Array.from({ length: 3 }, () => acceptRow(tenant, { backlog_max: 4 })),
    ];
    const settled = verdicts(await acceptBatch(b.api, rows));
    expect(settled.slice(5)).toEqual(['accepted', 'accepted', 'accepted']);
    expect(settled.slice(0, 5)).toEqual(Array(5).fill('backlog_full'));
  });

  test('a backlog stops at its limit', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const rows = Array.from({ length: 5 }, () => acceptRow(tenant, { backlog_max: 3 }));
    expect(verdicts(await acceptBatch(b.api, rows))).toEqual([
      'accepted',
      'accepted',
      'accepted',
      'backlog_full',
      'backlog_full',
    ]);
  });

  test('a suspended tenant gets nothing in, even through a process that does not know yet', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    await moveSuspension(b.admin, tenant.tenantId, 'manual');
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant)]))).toEqual(['suspended']);
    const [stored] = await b.admin`select count(*) as n from despatch.messages`;
    expect(stored?.['n']).toBe(0);
  });

  test("one tenant's refusals leave its batch neighbours alone", async () => {
    await using b = await setup();
    const [one, two] = [await seedTenant(b.admin), await seedTenant(b.admin)];
    const got = await acceptBatch(b.api, [
      acceptRow(one, { messages_per_day: 0 }),
      acceptRow(two),
      acceptRow(one, { messages_per_day: 0 }),
    ]);
    expect(verdicts(got)).toEqual(['daily_limit_reached', 'accepted', 'daily_limit_reached']);
  });

  test('messages in test mode do not count toward the day of live ones, and the other way round', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const testing = { ...tenant, apiKeyId: (await seedTenant(b.admin)).apiKeyId };
    const rows = () => [
      acceptRow(testing, { test: true, messages_per_day: 1 }),
      acceptRow(tenant, { messages_per_day: 1 }),
    ];
    expect(verdicts(await acceptBatch(b.api, rows()))).toEqual(['accepted', 'accepted']);
    expect(verdicts(await acceptBatch(b.api, rows()))).toEqual([
      'daily_limit_reached',
      'daily_limit_reached',
    ]);
  });
});

describe('idempotent acceptance', () => {
  test('fifty calls with one key at the same time store one message and all get its answer', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [scope, fingerprint] = [hex(), hex()];
    const got = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        acceptBatch(i % 2 === 0 ? b.api : b.otherApi, [acceptRow(tenant, { scope, fingerprint })]),
      ),
    );
    expect(count(got.flat(), 'accepted')).toBe(1);
    expect(count(got.flat(), 'replayed')).toBe(49);
    const [message] = await b.admin`select id from despatch.messages`;
    const answers = got.flat().filter((v) => v.verdict === 'replayed');
    expect(new Set(answers.map((v) => v.response?.id))).toEqual(new Set([message?.['id']]));
  });

  test('the same key twice in one batch is one message', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [scope, fingerprint] = [hex(), hex()];
    const rows = [
      acceptRow(tenant, { scope, fingerprint }),
      acceptRow(tenant, { scope, fingerprint }),
      acceptRow(tenant, { scope, fingerprint: hex() }),
    ];
    const got = await acceptBatch(b.api, rows);
    expect(verdicts(got)).toEqual(['accepted', 'replayed', 'mismatch']);
    expect(got[1]?.response?.id).toBe(rows[0]?.['id']);
  });

  test('a key with another payload is a mismatch', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const scope = hex();
    await acceptBatch(b.api, [acceptRow(tenant, { scope, fingerprint: hex() })]);
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant, { scope, fingerprint: hex() })]))).toEqual([
      'mismatch',
    ]);
  });

  test('a refused request leaves its key unused', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [scope, fingerprint] = [hex(), hex()];
    expect(
      verdicts(await acceptBatch(b.api, [acceptRow(tenant, { scope, fingerprint, messages_per_day: 0 })])),
    ).toEqual(['daily_limit_reached']);
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant, { scope, fingerprint })]))).toEqual([
      'accepted',
    ]);
  });

  test('a replay counts neither toward the minute nor toward the day', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const row = () =>
      acceptRow(tenant, {
        scope: 'ab'.repeat(32),
        fingerprint: 'cd'.repeat(32),
        rate_per_minute: 1,
        messages_per_day: 1,
      });
    expect(verdicts(await acceptBatch(b.api, [row()]))).toEqual(['accepted']);
    expect(verdicts(await acceptBatch(b.api, [row(), row()]))).toEqual(['replayed', 'replayed']);
  });

  test.each([
    { of: 'the last generation', days: -7, turning: false },
    { of: 'the last generation', days: -7, turning: true },
    // The state after a clock ran ahead and was set back.
    { of: 'the next generation', days: 7, turning: false },
    { of: 'the next generation', days: 7, turning: true },
  ])('a key of $of is still known, in the first minutes of one: $turning', async ({ days, turning }) => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    await b.admin
      .unsafe(`create or replace function despatch.idempotency_turning(at timestamptz) returns boolean
      language sql immutable as $$ select ${turning} $$`);
    const row = acceptRow(tenant, { scope: hex(), fingerprint: hex() });
    await acceptBatch(b.api, [row]);
    await b.admin`delete from despatch.idempotency_keys
      where generation < despatch.idempotency_generation(clock_timestamp())`;
    await b.admin`update despatch.idempotency_keys set generation = generation + ${days}::int`;
    const repeated = await acceptBatch(b.api, [
      acceptRow(tenant, { scope: row['scope'], fingerprint: row['fingerprint'] }),
    ]);
    expect(verdicts(repeated)).toEqual(['replayed']);
    expect(repeated[0]?.response).toEqual(row['response']);
  });

  test('batches whose keys overlap in opposite order do not deadlock', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const scopes = Array.from({ length: 20 }, hex);
    const rows = () => scopes.map((scope) => acceptRow(tenant, { scope, fingerprint: 'ef'.repeat(32) }));
    const got = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        acceptBatch(i % 2 === 0 ? b.api : b.otherApi, i % 2 === 0 ? rows() : rows().toReversed()),
      ),
    );
    expect(count(got.flat(), 'accepted')).toBe(20);
    expect(count(got.flat(), 'replayed')).toBe(140);
  });
});

/** Shifts the only stored window, as if its two calls had been made `age` seconds ago. */
async function shiftWindow(admin: Sql, age: number): Promise<void> {
  const at = Math.floor(Date.now() / 1000) - age;
  const counts = Array.from({ length: 61 }, (_, i) => (i === 60 ? 2 : 0));
  await admin`update despatch.rate_windows set second = ${at}, counts = ${counts}::integer[]`;
}
