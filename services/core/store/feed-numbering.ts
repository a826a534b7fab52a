import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { Bounded } from './bounded-queries.ts';

/** What one pass of the numbering came to; see SQL `number_changes`. */
export type NumberingPass = {
  readonly outcome: 'numbered' | 'more' | 'idle' | 'early' | 'elsewhere';
  /** Events that have their number now. */
  readonly numbered: number;
  /** Tenants with such events and with webhook endpoints. */
  readonly endpointTenants: readonly string[];
};

/** The worker's side of tenants' event feeds. */
export function feedNumberingStore(sql: Sql, bounded: Bounded) {
  return {
    /**
     * Gives numbers to what was committed since the pass before; one worker at a time.
     * @param most commits at once.
     * @param gapMs least time between two passes of whichever workers.
     */
    async numberChanges(most: number, gapMs: number): Promise<NumberingPass> {
      const [pass] = await bounded(
        sql<NumberingPass[]>`
          select outcome, numbered, endpoint_tenants as "endpointTenants" from number_changes(${most}, ${gapMs})`,
      );
      return pass ?? { outcome: 'idle', numbered: 0, endpointTenants: [] };
    },
    /** How long the oldest event has waited for its number; 0 without any. */
    async oldestChangeSeconds(): Promise<number> {
      const [row] = await bounded(sql<{ seconds: number }[]>`select oldest_change_seconds() as seconds`);
      return row?.seconds ?? 0;
    },
  };
}
