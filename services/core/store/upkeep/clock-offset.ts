import type { EpochClock } from '#core/domain/clock.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';

const DEADLINE_MS = 5_000;

/**
 * Returns by how many seconds this process's clock is ahead of the database's; negative where it is behind. It takes the
 * database's time as the middle between query and answer, so the error is at most half of the round trip.
 */
export async function clockOffsetSeconds(sql: Sql, epochMs: EpochClock = Date.now): Promise<number> {
  const asked = epochMs();
  const [row] = await withDeadline(
    sql<{ ms: number }[]>`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`,
    DEADLINE_MS,
  );
  if (row === undefined) throw new Error('The database told no time');
  return ((asked + epochMs()) / 2 - row.ms) / 1_000;
}
