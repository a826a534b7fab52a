import type { AuditEntry } from '#core/domain/audit-entry.ts';
import type { BrakeLevel } from '#core/domain/brake.ts';
import type { Channel } from '#core/domain/channel.ts';
import type { BrakeDecision, BrakeWindow } from '#core/domain/decide-brake.ts';
import type { StatedLimits } from '#core/domain/plan.ts';
import type { Bounded } from './bounded-queries.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';

/** What one pass of the counting came to; see SQL `count_usage`. */
export type CountingPass = {
  readonly outcome: 'counted' | 'more' | 'idle' | 'early' | 'elsewhere';
  /** Of channels of which this pass has counted something, and that have a bounce or a complaint. */
  readonly windows: readonly CountedWindow[];
};

/** The last final messages of a tenant's channel; see SQL `count_finals`. */
export type CountedWindow = BrakeWindow & {
  readonly tenantId: string;
  readonly channel: Channel;
  readonly level: BrakeLevel | null;
  /** Messages that became final in the busiest of the last 24 hours. */
  readonly busiestHour: number;
  /** When the last brake was lifted, as the database writes it; null for never. */
  readonly liftedAt: string | null;
  /** Null: the free plan holds. */
  readonly limits: StatedLimits | null;
};

export type DecidedBrake = BrakeDecision &
  Pick<CountedWindow, 'tenantId' | 'channel' | 'liftedAt'> & { readonly gapMs: number };

/** The worker's side of tenants' usage. */
export function usageCountingStore(sql: Sql, bounded: Bounded) {
  return {
    /**
     * Adds up the moves of messages that were committed since the pass before; one worker at a time.
     * @param most commits at once.
     * @param gapMs least time between two passes of whichever workers, while one takes all there is.
     */
    async countUsage(most: number, gapMs: number): Promise<CountingPass> {
      const [pass] = await bounded(
        sql<
          { outcome: CountingPass['outcome']; windows: CountedWindow[] | null }[]
        >`select outcome, windows from count_usage(${most}, ${gapMs})`,
      );
      return { outcome: pass?.outcome ?? 'idle', windows: pass?.windows ?? [] };
    },
    /**
     * Applies brakes; those that are on already, or whose window has been begun anew since, are passed over.
     * @returns an entry of the audit log for each that was applied.
     */
    async applyBrakes(decided: readonly DecidedBrake[]): Promise<AuditEntry[]> {
      const rows = await bounded(
        sql<
          { entry: Omit<AuditEntry, 'requestId'> }[]
        >`select a.* as entry from apply_brakes(${asJson(sql, decided)}) as a (entry)`,
      );
      return rows.map(({ entry }) => ({ ...entry, at: new Date(entry.at).toISOString(), requestId: null }));
    },
  };
}
