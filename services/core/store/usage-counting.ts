import type { Sql } from '#core/platform/postgres/postgres.ts';

/** What one pass of the counting came to; see SQL `count_usage`. */
export type CountingPass = 'counted' | 'more' | 'idle' | 'early' | 'elsewhere';

/** The worker's side of tenants' usage. */
export function usageCountingStore(sql: Sql, bounded: <T>(work: Promise<T>) => Promise<T>) {
  return {
    /**
     * Adds up the moves of messages that were committed since the pass before; one worker at a time.
     * @param most commits at once.
     * @param gapMs least time between two passes of whichever workers, while one takes all there is.
     */
    async countUsage(most: number, gapMs: number): Promise<CountingPass> {
      const [pass] = await bounded(
        sql<{ outcome: CountingPass }[]>`select count_usage(${most}, ${gapMs}) as outcome`,
      );
      return pass?.outcome ?? 'idle';
    },
  };
}
