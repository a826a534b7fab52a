import { expect, test } from 'vitest';
import { settle } from '#core/domain/settle.ts';
import type { Sql } from '#core/platform/postgres.ts';
import { deliveryStore, type ClaimedMessage, type Completion } from '#core/store/deliveries.ts';
import { acceptBatch, acceptRow, seedProvider, seedTenant } from '#test/support/seed.ts';
import { setupStores } from '#test/support/worker.ts';
import { toCompletion } from '../../services/worker/completion.ts';

const STORED = 600;
const TERMS = { worker: 'w1', leaseMs: 60_000, blocked: [] };

/** What the planner thinks of empty tables stays with a connection, and connections live long. */
test('what a batch reads does not grow with what is stored, on a connection that first met the tables empty', async () => {
  await using b = await setupStores();
  const tenant = await seedTenant(b.admin);
  await seedProvider(b.admin, tenant.tenantId);
  const accept = async (n: number) => {
    const rows = Array.from({ length: n }, () => acceptRow(tenant));
    const verdicts = await acceptBatch(b.api, rows);
    return rows.map((row, i) => ({ id: row['id'] as string, purgeOn: verdicts[i]?.purge_on ?? '' }));
  };
  const connection = await b.admin.reserve();
  try {
    await connection`set search_path = despatch`;
    const store = deliveryStore(connection, 10_000);
    const one = async () => {
      const wakes = await accept(1);
      return await rowsRead(connection, async () => {
        const claimed = await store.claim(wakes, TERMS);
        await store.complete(claimed.map(accepted));
        expect(await store.claimDue(tenant.tenantId, 10, 0, TERMS)).toEqual({ messages: [], more: false });
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

function accepted(message: ClaimedMessage): Completion {
  const outcome = { kind: 'accepted', providerMessageId: 'p-1' } as const;
  const terms = { dedupe: 'none', receiptsExpected: false } as const;
  const attempted = { ...message, ...terms, expiresAt: message.expiresAt.getTime() };
  return toCompletion(message, outcome, settle(outcome, attempted, Date.now(), 0), Date.now());
}

/** Rows that the server touched for `work` in tables and indexes. */
async function rowsRead(connection: Sql, work: () => Promise<void>): Promise<number> {
  await connection`begin`;
  const before = await rowsTouched(connection);
  await work();
  const after = await rowsTouched(connection);
  await connection`commit`;
  return after - before;
}

/** By this connection, counted since the server last collected its counts; within a transaction it collects none. */
async function rowsTouched(connection: Sql): Promise<number> {
  const [row] = await connection<{ n: number }[]>`
    select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int as n from pg_stat_xact_user_tables`;
  return row?.n ?? 0;
}
