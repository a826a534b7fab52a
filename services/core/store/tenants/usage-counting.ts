import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { BrakeLevel } from '#core/domain/tenant/brake.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { BrakeDecision, BrakeWindow } from '#core/domain/tenant/decide-brake.ts';
import type { StatedLimits } from '#core/domain/tenant/plan.ts';
import type { Bounded } from '../query/bounded-queries.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';

/** The result of one counting pass; see SQL `count_usage`. */
export type CountingPass = {
  readonly outcome: 'counted' | 'more' | 'idle' | 'early' | 'elsewhere';
  /** Those of channels that changed in this pass and have a bounce or a complaint. */
  readonly windows: readonly CountedWindow[];
};

/** The final messages of a tenant's channel that count for its brake; see SQL `count_finals`. */
export type CountedWindow = BrakeWindow & {
  readonly tenantId: string;
  readonly channel: Channel;
  readonly level: BrakeLevel | null;
  /** Messages that became final in the busiest hour of the last eight days; null if none did. */
  readonly busiestHour: number | null;
  /** When the last brake was lifted, as the database prints it; null for never. */
  readonly liftedAt: string | null;
  /** Null: the free plan applies. */
  readonly limits: StatedLimits | null;
};

export type DecidedBrake = BrakeDecision &
  Pick<CountedWindow, 'tenantId' | 'channel' | 'liftedAt'> & { readonly gapMs: number };

/** The worker's access to the counting of usage. */
export function usageCountingStore(sql: Sql, bounded: Bounded) {
  return {
    /**
     * Adds up the moves of messages that were committed since the previous pass; one worker at a time.
     * @param most moves of messages per pass; the last commit of a pass may have more.
     * @param gapMs minimum time between two passes of any workers, unless the previous one left moves.
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
     * Applies brakes; skips those that are in force already, or whose window was restarted since.
     * @returns an audit log entry for each that was applied.
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
