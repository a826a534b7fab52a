import type { Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';

/** The result of one numbering pass; see SQL `number_changes`. */
export type NumberingPass = {
  readonly outcome: 'numbered' | 'more' | 'idle' | 'early' | 'elsewhere';
  /** Number of events that the pass has numbered. */
  readonly numbered: number;
  /** Tenants with such events and with webhook endpoints. */
  readonly endpointTenants: readonly string[];
};

/** The worker's access to the numbering of event feeds. */
export function feedNumberingStore(sql: Sql, bounded: Bounded) {
  const { rowsOf } = boundedQueries(bounded);
  return {
    /**
     * Numbers the changes committed since the previous pass; one worker at a time.
     * @param most rows of `changes` per pass.
     * @param gapMs minimum time between two passes of any workers.
     */
    async numberChanges(most: number, gapMs: number): Promise<NumberingPass> {
      const [pass] = await rowsOf<NumberingPass>(
        sql`
          select outcome, numbered, endpoint_tenants from number_changes(${most}, ${gapMs})`,
      );
      return pass ?? { outcome: 'idle', numbered: 0, endpointTenants: [] };
    },
  };
}
