import type { Sql } from './postgres.ts';

/**
 * By how much the clock of this process is ahead of the database's, in seconds; negative where it is behind. The answer is taken
 * for the middle between question and answer: it is wrong by half of what they took at most.
 */
export async function clockOffsetSeconds(sql: Sql, now: () => number = Date.now): Promise<number> {
  const asked = now();
  const [row] = await sql<
    { ms: number }[]
  >`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`;
  if (row === undefined) throw new Error('The database told no time');
  return ((asked + now()) / 2 - row.ms) / 1_000;
}
