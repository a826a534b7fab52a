import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { openPostgres, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { readAsTenant } from '#core/store/query/read-scope.ts';
import { scanMessages } from '#core/store/messages/messages.ts';
import { workerStore } from '#core/store/worker-store.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import { assignmentOf } from '#test/support/assignment.ts';
import { completionOf } from '#test/support/completion-of.ts';
import { rowsRead, rowsTouched } from '#test/support/rows-read.ts';
import { ADDRESS_KEYS, acceptBatch, acceptRow, seedAccount, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/setup-stores.ts';

const STORED = 600;
/** So many tenants that the planner expects few rows for one of them. */
const OTHERS = 60;
const TERMS = { worker: 'w1', leaseMs: 60_000 };

/** A connection keeps the plans that it made while the tables were empty, and connections live long. */
test('claims and completions read no more rows as tables grow, with plans made on empty tables', async () => {
  await using b = await setupStores();
  const tenant = await seedTenant(b.admin);
  const accountId = await seedAccount(b.admin, tenant.tenantId);
  const lane = { tenantId: tenant.tenantId, accountId };
  const accept = async (n: number) => {
    const rows = Array.from({ length: n }, () => acceptRow(tenant));
    await acceptBatch(b.api, rows);
    return rows.map(({ seq }) => seq);
  };
  const connection = await b.admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const store = workerStore(connection, 10_000, ADDRESS_KEYS);
    const one = async () => {
      const wakes = await accept(1);
      return await rowsRead(connection, async () => {
        const claimed = await store.claim(wakes, TERMS);
        await store.complete(claimed.map(accepted));
        expect(await store.claimDue([{ ...lane, most: 10, aheadMs: 0 }], TERMS)).toEqual([]);
      });
    };

    const whenEmpty = await one();
    const wakes = await accept(STORED);
    expect(await store.claim(wakes, TERMS)).toHaveLength(STORED);

    expect(whenEmpty).toBeGreaterThan(0);
    expect(await one()).toBeLessThan(whenEmpty + STORED / 10);
  } finally {
    connection.release();
  }
});

test('acceptance with a key and searches for work read no more rows as tables grow', async () => {
  await using b = await setupStores();
  const tenant = await seedTenant(b.admin);
  const accountId = await seedAccount(b.admin, tenant.tenantId);
  const lane = { tenantId: tenant.tenantId, accountId };
  const keyed = () => acceptRow(tenant, { scope: hex(), fingerprint: hex() });
  const connection = await b.admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const store = workerStore(connection, 10_000, ADDRESS_KEYS);
    const works: Record<string, () => Promise<unknown>> = {
      accept: () => acceptBatch(connection, [keyed()]),
      dueLanes: () => store.dueLanes(),
      dueSeqs: () => store.dueSeqs(lane, 1, 0),
      holdTenant: () => store.holdTenant(tenant.tenantId, 1),
      releaseTenant: () => store.releaseTenant(tenant.tenantId, 1),
      assignAccounts: () => store.assignAccounts([assignmentOf(1, accountId, accountId)]),
      delayedLanes: () => store.delayedLanes([lane]),
      findDelayed: () => store.findDelayed(lane, 1, undefined),
      settleContents: () => store.settleContents(1),
      wakeDeferred: () => connection`select wake_deferred(${accountId})`,
      callers: () => connection`select find_callers(${['nobody']})`,
    };
    const read = async (name: string) => rowsRead(connection, async () => void (await works[name]?.()));

    // Enough executions for the connection to keep a generic plan.
    for (const name of Object.keys(works)) for (let i = 0; i < 10; i++) await read(name);
    await b.admin`analyze despatch.live_messages, despatch.idempotency_keys`;
    for (const name of Object.keys(works)) for (let i = 0; i < 10; i++) await read(name);
    const other = await seedTenant(b.admin);
    await seedAccount(b.admin, other.tenantId);
    const rows = Array.from({ length: STORED }, () => acceptRow(other, { scope: hex(), fingerprint: hex() }));
    await acceptBatch(b.api, rows);
    await b.admin`
      insert into despatch.api_keys (id, tenant_id, key_id, name, mode, scopes, secret_hash)
      select gen_random_uuid(), ${other.tenantId}, 'k' || n, 'many', 'live', '{}', '' from generate_series(1, ${STORED}::int) n`;

    const many: Record<string, number> = {};
    for (const name of Object.keys(works)) {
      const n = await read(name);
      if (n >= STORED / 2) many[name] = n;
    }
    expect(many).toEqual({});
  } finally {
    connection.release();
  }
});

test('a page of the message list reads a bounded number of rows, with current statistics', async () => {
  await using b = await setupStores();
  const { tenantId } = await fillFor(b, STORED);
  for (let i = 0; i < OTHERS; i++) await fillFor(b, STORED / OTHERS);
  await b.admin`vacuum (analyze) despatch.messages, despatch.message_states`;
  const page = 10;
  const connection = await b.admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const read = await rowsRead(connection, async () => {
      // The api's role; row-level security shows it one tenant's rows.
      await connection`set local role despatch_api`;
      await connection`select set_config('app.tenant', ${tenantId}, true)`;
      const { found } = await scanMessages(
        tenantId as TenantId,
        connection as never,
        {},
        { before: undefined, rows: page, most: page },
      );
      expect(found).toHaveLength(page);
      await connection`reset role`;
    });
    // Per message: its row, its state, and the rows that tell which accounts were tried.
    expect(read).toBeLessThan(10 * page);
  } finally {
    connection.release();
  }
});

test('a filtered page reads a bounded number of rows, with a plan made on nearly empty tables', async () => {
  await using b = await setupStores();
  const tenant = await fillFor(b, 5);
  const tenantId = tenant.tenantId as TenantId;
  await b.admin`analyze`;
  const rows = 50;
  await using pool = openReads(b);
  const scopes = { sql: pool.sql, cancelSql: b.admin };
  const readPage = () =>
    readAsTenant(scopes, tenantId, new AbortController().signal, async (tx) => {
      await tx`set local role despatch_api`;
      const before = await rowsTouched(tx);
      await scanMessages(tenantId, tx, { status: 'sent' }, { before: undefined, rows, most: 10 });
      return (await rowsTouched(tx)) - before;
    });

  // Enough executions for the connection to keep a generic plan.
  for (let i = 0; i < 10; i++) await readPage();
  await acceptBatch(
    b.api,
    Array.from({ length: STORED }, () => acceptRow(tenant)),
  );
  // Per message: its row and its state, live or not.
  expect(await readPage()).toBeLessThan(4 * rows);
});

test('a page of the message list reads each message and its result once, and no other tables', async () => {
  await using b = await setupStores();
  const tenant = await seedTenant(b.admin);
  const tenantId = tenant.tenantId as TenantId;
  const accountId = await seedAccount(b.admin, tenantId);
  const rows = Array.from({ length: STORED }, () => acceptRow(tenant));
  await acceptBatch(b.api, rows);
  const claimed = await b.store.claim(
    rows.map(({ seq }) => seq),
    TERMS,
  );
  await b.store.complete(claimed.map(accepted));
  await b.admin`vacuum (analyze) despatch.messages, despatch.message_results, despatch.attempt_log`;
  const page = 50;
  await using pool = openReads(b);
  const scopes = { sql: pool.sql, cancelSql: b.admin };
  const readPage = () =>
    readAsTenant(scopes, tenantId, new AbortController().signal, async (tx) => {
      await tx`set local role despatch_api`;
      const before = await blocksTouched(tx);
      const { found } = await scanMessages(
        tenantId,
        tx,
        { test: false },
        { before: undefined, rows: page, most: page },
      );
      const after = await blocksTouched(tx);
      const [setting] = await tx<{ jit: string }[]>`select current_setting('jit') as jit`;
      return {
        found,
        jit: setting?.jit,
        blocks: Object.fromEntries(Object.entries(after).map(([name, n]) => [name, n - (before[name] ?? 0)])),
      };
    });

  // Enough executions for the connection to keep a generic plan, because planning reads every empty index.
  for (let i = 0; i < 10; i++) await readPage();
  const { found, blocks, jit } = await readPage();
  expect(found.map(({ status, account_id: called, left_accounts: left }) => [status, called, left])).toEqual(
    Array.from({ length: page }, () => ['sent', accountId, null]),
  );
  expect(jit).toBe('off');
  expect(blocks).toMatchObject({ attempts: 0, live: 0, messageKeys: 0 });
  // Per message one block of the list's index and one of its row, plus the first access to each partition.
  expect(blocks['messages']).toBeLessThan(2 * page + 20);
  // Blocks from the root of the index to the row.
  expect(blocks['results']).toBeLessThan(4 * page);
});

const hex = () => randomBytes(32).toString('hex');

async function fillFor(b: Stores, messages: number): Promise<SeededTenant> {
  const tenant = await seedTenant(b.admin);
  await seedAccount(b.admin, tenant.tenantId);
  await acceptBatch(
    b.api,
    Array.from({ length: messages }, () => acceptRow(tenant)),
  );
  return tenant;
}

/** Opens one connection, which keeps its plans between reads. */
const openReads = ({ urls }: Pick<Stores, 'urls'>) =>
  openPostgres({
    url: secret(urls.admin),
    poolMax: 1,
    statementTimeoutMs: 10_000,
    applicationName: 'test',
  });

type Stores = Awaited<ReturnType<typeof setupStores>>;
type SeededTenant = Awaited<ReturnType<typeof seedTenant>>;

const accepted = (message: ClaimedMessage): Completion =>
  completionOf(message, { kind: 'accepted', providerMessageId: 'p-1' });

/** Returns the blocks that this transaction has read, per table with its indexes. */
async function blocksTouched(tx: TransactionSql): Promise<Record<string, number>> {
  const [row] = await tx<Record<string, number>[]>`
    select coalesce(sum(n) filter (where relname ~ '^messages' and relname !~ '_pkey$'), 0)::int as messages,
      coalesce(sum(n) filter (where relname ~ '^messages.*_pkey$'), 0)::int as "messageKeys",
      coalesce(sum(n) filter (where relname ~ '^message_results'), 0)::int as results,
      coalesce(sum(n) filter (where relname ~ '^live_messages'), 0)::int as live,
      coalesce(sum(n) filter (where relname ~ '^attempt_log'), 0)::int as attempts
    from (select relname, pg_stat_get_xact_blocks_fetched(oid) as n from pg_class
      where relnamespace = 'despatch'::regnamespace) t`;
  return row ?? {};
}
