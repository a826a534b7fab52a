import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { isUndone } from '#core/domain/storage/database-fault.ts';
import { Secret } from '#core/domain/storage/secret.ts';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { testDatabase } from '#test/support/servers.ts';
import { startTcpProxy, type Inspector } from '#test/support/tcp-proxy.ts';

const SOON_MS = 15_000;
const UNHANDLED = ['uncaughtException', 'unhandledRejection'] as const;
const uncaught: unknown[] = [];
const note = (error: unknown): void => void uncaught.push(error);

beforeEach(() => {
  uncaught.length = 0;
  for (const kind of UNHANDLED) process.on(kind, note);
});
afterEach(() => {
  for (const kind of UNHANDLED) process.off(kind, note);
});

async function setup() {
  await using resources = new AsyncDisposableStack();
  const database = resources.use(await testDatabase());
  const admin = resources.adopt(postgres(database.superuserUrl, { max: 1 }), (sql) =>
    sql.end({ timeout: 1 }),
  );
  const url = new URL(database.superuserUrl);
  const asksForTypes = (): Inspector => (direction, bytes) =>
    direction === 'up' && bytes.includes('typcategory') ? ['types'] : [];
  const proxy = resources.use(await startTcpProxy(Number(url.port), asksForTypes));
  url.port = String(proxy.port);
  // A pool of one: no other connection can hide what happens to this one.
  const sql = resources.adopt(
    postgres(url.href, { max: 1, backoff: () => 0.05, connect_timeout: 2 }),
    (one) => one.end({ timeout: 1 }),
  );
  const owned = resources.move();
  return { sql, admin, proxy, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

type Setup = Awaited<ReturnType<typeof setup>>;

/** Expects a query to succeed soon. Queries may fail while the connection closes, but none may stay unanswered. */
async function expectWorking({ sql }: Pick<Setup, 'sql'>): Promise<void> {
  const ask = (): Promise<unknown> =>
    Promise.race([
      sql<{ one: number }[]>`select 1 as one`.then(([row]) => row?.one, String),
      new Promise((resolve) => setTimeout(() => resolve('no answer'), SOON_MS)),
    ]);
  await expect.poll(ask, { timeout: SOON_MS, interval: 20 }).toBe(1);
}

describe('a connection that closes', () => {
  test('fails its open transaction, but does not crash the process', async () => {
    await using s = await setup();
    for (let round = 0; round < 5; round++) {
      const begun = Promise.withResolvers<number>();
      const transaction = s.sql.begin(async (tx) => {
        const [own] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
        begun.resolve(own?.pid ?? 0);
        await tx`select pg_sleep(10)`.catch(() => tx`select 1`);
      });
      const [, ended] = await Promise.all([
        begun.promise.then((pid) => s.admin`select pg_terminate_backend(${pid}, 30000)`),
        transaction.then(
          () => 'committed',
          () => 'failed',
        ),
      ]);
      expect(ended).toBe('failed');
      await expectWorking(s);
    }
    expect(uncaught).toEqual([]);
  });

  test('leaves no concurrent query unanswered, and its slot in the pool works again', async () => {
    await using s = await setup();
    for (let round = 0; round < 40; round++) {
      await expectWorking(s);
      // A failed query is repeated at once, as a service does, so queries fall between the error and the close, and after both.
      const ask = (left: number): Promise<string> =>
        s.sql`select ${round}::int, ${'x'.repeat(round * 40)}::text`.then(
          () => 'answered',
          () => (left === 0 ? 'refused' : ask(left - 1)),
        );
      const asked = Array.from({ length: 4 }, () => ask(2));
      if (round % 2 === 0) await new Promise(setImmediate);
      s.proxy.cut();
      const late = new Promise<string>((resolve) => setTimeout(() => resolve('no answer'), SOON_MS));
      const answers = await Promise.all(asked.map((one) => Promise.race([one, late])));
      expect(answers).not.toContain('no answer');
    }
    await expectWorking(s);
    expect(uncaught).toEqual([]);
  });

  test('while it loads the array types fails the waiting query, but does not crash the process', async () => {
    await using s = await setup();
    const types = s.proxy.hold('types');
    const asked = s.sql`select ${[1, 2]}::int[] as numbers`.then(
      () => 'answered',
      () => 'refused',
    );
    await types.reached;
    s.proxy.cut();
    expect(await asked).toBe('refused');
    await expectWorking(s);
    expect(await s.sql`select ${[1, 2]}::int[] as numbers`).toEqual([{ numbers: [1, 2] }]);
    expect(uncaught).toEqual([]);
  });
});

describe('a server that silently stops answering', () => {
  async function setupPool() {
    await using resources = new AsyncDisposableStack();
    const database = resources.use(await testDatabase());
    const url = new URL(database.superuserUrl);
    const proxy = resources.use(await startTcpProxy(Number(url.port)));
    url.port = String(proxy.port);
    const { sql } = resources.use(
      openPostgres({
        url: new Secret(url.href),
        poolMax: 2,
        statementTimeoutMs: 1_000,
        applicationName: 'despatch-test',
      }),
    );
    const owned = resources.move();
    return { sql, proxy, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  test('makes queries on old connections fail, and new connections soon succeed', async () => {
    await using s = await setupPool();
    await Promise.all([s.sql`select pg_sleep(0.1)`, s.sql`select pg_sleep(0.1)`]);
    s.proxy.strand();
    const asked = Array.from({ length: 4 }, () => s.sql`select 1`.then(() => 'answered', String));
    const answers = await Promise.all(asked);
    expect(new Set(answers)).toEqual(new Set(['Error: The database no longer knows this connection']));
    await expectWorking(s);
  });

  test('is distinguished from a slow server, whose connections are kept', async () => {
    await using s = await setupPool();
    const [own] = await s.sql.begin(async (tx) => {
      await tx`set local statement_timeout = 0`;
      await tx`select pg_sleep(6)`;
      return tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
    });
    expect(own?.pid).toBeGreaterThan(0);
  });
});

describe('an error tells whether its statement may have been committed', () => {
  const undone = (work: Promise<unknown>) => work.then(() => 'answered', isUndone);

  test('after an answer of the server, and after the loss of the connection', async () => {
    await using s = await setup();
    expect(await undone(s.sql`select 1 / 0`)).toBe(true);
    await s.sql`set statement_timeout = 50`;
    expect(await undone(s.sql`select pg_sleep(5)`)).toBe(true);
    await s.sql`set statement_timeout = 0`;
    const [own] = await s.sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
    const asked = undone(s.sql`select pg_sleep(5)`);
    await s.admin`select pg_terminate_backend(${own?.pid ?? 0}, 30000)`;
    expect(await asked).toBe(false);
  });

  test('a statement under way is not mistaken for the one whose new connection is refused', async () => {
    await using s = await setup();
    await expectWorking(s);
    const sent = undone(s.sql`select pg_sleep(5)`);
    const queued = undone(s.sql`select 1`);
    await expect
      .poll(
        () =>
          s.admin`select from pg_stat_activity where query like '%pg_sleep(5)%' and pid <> pg_backend_pid()`,
      )
      .not.toHaveLength(0);
    await s.proxy[Symbol.asyncDispose]();
    expect(await sent).toBe(false);
    // Whether it had been sent over the connection before is not known.
    expect(await queued).not.toBe('answered');
    // Until the driver has noticed the end of the connection, a statement may have been sent over it.
    await expect.poll(() => undone(s.sql`select 1`)).toBe(true);
  });

  test('a server that accepts connections and says nothing got no statement', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const sql = postgres(`postgres://nobody@127.0.0.1:${port}/none`, { max: 1, connect_timeout: 1 });
    expect(await undone(sql`select 1`)).toBe(true);
    await sql.end({ timeout: 0 });
    silent.close();
  });
});

test('keepalive settings make the server end the connections of a dead client within a minute', async () => {
  await using database = await testDatabase();
  await using pool = openPostgres({
    url: new Secret(database.superuserUrl),
    poolMax: 1,
    statementTimeoutMs: 5_000,
    applicationName: 'keepalives',
  });
  const [row] = await pool.sql<{ idle: number; every: number; most: number; unacknowledged: number }[]>`
    select current_setting('tcp_keepalives_idle')::integer as idle,
      current_setting('tcp_keepalives_interval')::integer as every, current_setting('tcp_keepalives_count')::integer as most,
      (select setting::integer / 1000 from pg_settings where name = 'tcp_user_timeout') as unacknowledged`;
  const { idle = 0, every = 0, most = 0, unacknowledged } = row ?? {};
  // As the server has set them for its socket; 0 would be the system's two hours.
  expect(idle).toBeGreaterThan(0);
  expect(idle + every * most).toBeLessThanOrEqual(60);
  expect(unacknowledged).toBe(60);
});
