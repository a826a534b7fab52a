import { expect, test } from 'vitest';
import { webhookStore } from '#core/store/webhooks/webhook-store.ts';
import { holdSnapshot } from '#test/support/hold-snapshot.ts';
import { direct, setupWebhooks, succeeded } from '#test/support/setup-webhooks.ts';

const median = (some: readonly number[]) => some.toSorted((x, y) => x - y)[some.length >> 1] ?? Number.NaN;

/**
 * Matches, claims and completes, and counts the pages that each step reads. If the machine's speed changes during the test, a
 * step skips more or fewer recent rows; a retry removes that effect, but not growth with everything delivered.
 */
test(
  'under an old snapshot matching, claims and completions read no more pages over time',
  { timeout: 180_000, retry: 3 },
  async () => {
    await using b = await setupWebhooks();
    for (const ordered of [false, true]) await b.endpoint({ ordered });
    await b.endpoint({ event_types: ['tenant.*'] });
    await b.endpoint({ rate_limit_per_second: 1_000 });
    const connection = await b.admin.reserve();
    await connection`set search_path = despatch`;
    const counted = webhookStore(connection, direct, b.loadIds);
    // The search for open claims reads the rows of one lease, so the lease is short.
    const leaseMs = 1_000;
    const pages = async (): Promise<number> => {
      const [row] = await b.admin<{ n: number }[]>`
      select sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint as n from pg_statio_user_tables
      where schemaname = 'despatch' and relname ~ '^(due_deliveries|endpoint_heads|webhook_endpoints|account_rates)$'`;
      return row?.n ?? 0;
    };
    const round = async (): Promise<number> => {
      await b.send(1);
      const before = await pages();
      const { claims: made } = await b.match(10, counted, leaseMs);
      const { claims: found } = await b.claim({ leaseMs }, counted);
      await counted.completeDeliveries([...made, ...found].map(succeeded));
      await connection`select pg_stat_force_next_flush()`;
      await connection`select 1`;
      return (await pages()) - before;
    };
    try {
      await using reader = await holdSnapshot(b.admin);
      // A look starts some seconds before the last one and skips what was delivered in that time: more on a faster machine, but
      // no further rows.
      const from = performance.now();
      const ended: number[] = [];
      const timed = async () => {
        const read = await round();
        const now = performance.now();
        ended.push(now);
        return { read, recent: ended.filter((at) => at > now - 6_000).length };
      };
      const roundsUntil = async (ms: number): Promise<Awaited<ReturnType<typeof timed>>[]> => {
        const rounds = [];
        do rounds.push(await timed());
        while (performance.now() < from + ms || rounds.length < 20);
        return rounds;
      };
      await roundsUntil(6_000);
      const early = await roundsUntil(9_000);
      const late = (await roundsUntil(18_000)).slice(-100);
      const usual = median(early.map(({ recent }) => recent));
      // On a slower machine fewer rounds share the pages that are read in any case, so the reads are scaled.
      const comparable = late.map(({ read, recent }) => read / Math.max(1, recent / usual));
      expect(median(comparable)).toBeLessThan(1.5 * median(early.map(({ read }) => read)));
      expect(reader).toBeDefined();
    } finally {
      connection.release();
    }
  },
);
