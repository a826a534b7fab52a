import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isPlaceRefused } from '#core/domain/storage/database-fault.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { purgeDay } from '#core/domain/storage/purge-day.ts';
import { transactionWithin } from '#core/store/query/tenant-scope.ts';
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

test('a transaction that exceeds its deadline rejects and is never committed', async () => {
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
  test('stores an accepted message with its live row, due more than 4 seconds after acceptance', async () => {
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
    'the expiry is computed from the database clock when the api clock is an hour %s',
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

  test('each scheduled message of a batch keeps the retention that its own request read, as while a plan changes', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const sendAt = Date.now() + 3_600_000;
    const rows = [90, 30, 60].map((retention_days) =>
      acceptRow(tenant, {
        status: 'scheduled',
        send_at: new Date(sendAt).toISOString(),
        retention_days,
        purge_on: purgeDay(sendAt, retention_days),
      }),
    );
    const verdicts = await acceptBatch(b.api, rows);
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(['accepted', 'accepted', 'accepted']);
    const stored = await b.admin<{ seq: number; retention_days: number }[]>`
      select seq, retention_days from despatch.live_messages`;
    const daysOf = new Map(stored.map(({ seq, retention_days }) => [seq, retention_days]));
    expect(rows.map(({ seq }) => daysOf.get(seq))).toEqual([90, 30, 60]);
  });

  test('a scheduled message whose day is too early for its own retention is refused beside one with a shorter one', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const sendAt = Date.now() + 3_600_000;
    const scheduled = (retention_days: number) =>
      acceptRow(tenant, {
        status: 'scheduled',
        send_at: new Date(sendAt).toISOString(),
        retention_days,
        purge_on: purgeDay(sendAt, 30),
      });
    await expect(acceptBatch(b.api, [scheduled(30), scheduled(90)])).rejects.toMatchObject({ code: 'DS001' });
    const [stored] = await b.admin`select count(*)::int as n from despatch.messages`;
    expect(stored?.['n']).toBe(0);
  });

  test('a batch that reuses a sequence number is rejected, and the first message stays', async () => {
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

  test('the purge day is the first Monday at or after the end of the retention period', async () => {
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

  test('an idempotency key is kept for seven days, and not longer than a message with a retention of eight days', async () => {
    await using b = await setup();
    const wrong = await b.admin`
      select accepted, n from generate_series('2026-01-05T00:00:00Z'::timestamptz, '2026-03-01', interval '1 hour') hour,
        unnest(array[hour, hour - interval '1 microsecond']) accepted, generate_series(8, 60) n,
        despatch.idempotency_generation(accepted) generation
      where not despatch.has_served('idempotency_keys', generation, despatch.purge_day(accepted, n))
        or despatch.has_served('idempotency_keys', generation,
          ((accepted + interval '7 days' - interval '1 microsecond') at time zone 'UTC')::date)`;
    expect(wrong).toHaveLength(0);
  });

  test('concurrent batches over two processes are accepted up to exactly the daily limit', async () => {
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

  test('retryAfter of a daily limit refusal is the number of seconds until midnight UTC', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [refused] = await acceptBatch(b.api, [acceptRow(tenant, { messages_per_day: 0 })]);
    const toMidnight = Math.ceil((Date.UTC(2999, 0, 1) - Date.now()) / 1000) % 86_400;
    expect(Math.abs((refused?.retryAfter ?? 0) - toMidnight)).toBeLessThanOrEqual(2);
  });

  test('a burst over two processes is accepted up to exactly the rate limit; refused requests do not count', async () => {
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

  test('requests that are refused beside accepted ones wait until the first of those leave the window', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const rows = Array.from({ length: 20 }, () => acceptRow(tenant, { rate_per_minute: 10 }));
    const refused = (await acceptBatch(b.api, rows)).filter(({ verdict }) => verdict === 'rate_limited');
    expect(refused.map(({ retryAfter }) => retryAfter)).toEqual(Array(10).fill(61));
  });

  test('the sliding rate limit window counts a request for a minute and then frees its slot', async () => {
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

  test('refused test messages use no backlog of live messages in the same batch', async () => {
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

  test('messages beyond the backlog limit are refused', async () => {
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

  test('the database refuses messages of a suspended tenant', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    await moveSuspension(b.admin, tenant.tenantId, 'manual');
    expect(verdicts(await acceptBatch(b.api, [acceptRow(tenant)]))).toEqual(['suspended']);
    const [stored] = await b.admin`select count(*) as n from despatch.messages`;
    expect(stored?.['n']).toBe(0);
  });

  test("a tenant's refusals do not affect other tenants in the same batch", async () => {
    await using b = await setup();
    const [one, two] = [await seedTenant(b.admin), await seedTenant(b.admin)];
    const got = await acceptBatch(b.api, [
      acceptRow(one, { messages_per_day: 0 }),
      acceptRow(two),
      acceptRow(one, { messages_per_day: 0 }),
    ]);
    expect(verdicts(got)).toEqual(['daily_limit_reached', 'accepted', 'daily_limit_reached']);
  });

  test('live and test messages have separate daily limits', async () => {
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
  test('fifty concurrent calls with one idempotency key store one message and return its answer', async () => {
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

  test('in one batch, a repeated key is replayed, and one with another payload is a mismatch', async () => {
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

  test('a replay counts toward neither the rate limit nor the daily limit', async () => {
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
  ])(
    'a key of $of is replayed (in the first minutes of a generation: $turning)',
    async ({ days, turning }) => {
      await using b = await setup();
      const tenant = await seedTenant(b.admin);
      await setTurning(b.admin, turning);
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
    },
  );

  test('a key is replayed after the clock went back into the first minutes of its generation', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    await setTurning(b.admin, false);
    const row = acceptRow(tenant, { scope: hex(), fingerprint: hex() });
    await acceptBatch(b.api, [row]);
    await setTurning(b.admin, true);
    const again = acceptRow(tenant, { scope: row['scope'], fingerprint: row['fingerprint'] });
    const [repeated] = await acceptBatch(b.api, [again]);
    expect(repeated).toMatchObject({ verdict: 'replayed', response: row['response'] });
  });

  test('a key that two requests claim across the first minutes of a generation has one answer', async () => {
    await using b = await setup();
    const tenant = await seedTenant(b.admin);
    const [scope, fingerprint] = [hex(), hex()];
    const claim = (response: string) => b.admin<{ response: unknown }[]>`
      select response from despatch.claim_idempotency(array[decode(${scope}, 'hex')], array[${tenant.tenantId}]::uuid[],
        array[decode(${fingerprint}, 'hex')], 202::smallint, array[${response}]::json[])`;
    // What the earlier request has stored when the later one, for which the first minutes are over, claims the key.
    await setTurning(b.admin, true);
    await b.admin.unsafe(`create function despatch.claim_later() returns trigger language plpgsql as $$
      begin
        insert into despatch.idempotency_keys (scope, generation, tenant_id, fingerprint, status, response)
        values (new.scope, new.generation + 7, new.tenant_id, new.fingerprint, 202, '"later"');
        return new;
      end $$`);
    await b.admin.unsafe(`create trigger later after insert on despatch.idempotency_keys for each row
      when (new.response::text = '"earlier"' and new.generation < despatch.idempotency_generation(clock_timestamp()))
      execute function despatch.claim_later()`);
    expect(await claim('earlier')).toEqual([{ response: 'later' }]);
    expect(await b.admin`select response from despatch.idempotency_keys`).toEqual([{ response: 'later' }]);
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

/** Sets whether a generation of idempotency keys counts as so young that claims are stored under the previous one too. */
const setTurning = (admin: Sql, turning: boolean) =>
  admin.unsafe(`create or replace function despatch.idempotency_turning(at timestamptz) returns boolean
    language sql immutable as $$ select ${turning} $$`);

/** Shifts the only stored window, as if its two calls had been made `age` seconds ago. */
async function shiftWindow(admin: Sql, age: number): Promise<void> {
  const at = Math.floor(Date.now() / 1000) - age;
  const counts = Array.from({ length: 61 }, (_, i) => (i === 60 ? 2 : 0));
  await admin`update despatch.rate_windows set second = ${at}, counts = ${counts}::integer[]`;
}
