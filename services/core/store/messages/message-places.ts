import type { Sql } from '#core/platform/postgres/postgres.ts';
import { withDatabaseDeadline } from '../query/tenant-scope.ts';

/** A block of message numbers for this process alone, and the database's time when it was reserved. */
export type SeqBlock = { readonly firstSeq: number; readonly now: Date };

/** How many numbers `reserve_message_seqs` reserves at once. */
export const SEQS_PER_BLOCK = 1_024;

export async function reserveMessageSeqs(sql: Sql): Promise<SeqBlock> {
  const [row] = await withDatabaseDeadline(
    sql<{ first_seq: number; now: Date }[]>`select first_seq, now from reserve_message_seqs()`,
  );
  const { first_seq, now } = row as { first_seq: number; now: Date };
  return { firstSeq: first_seq, now };
}

/** Returns the key that encrypts places in ids: one for the whole installation, and never changed. */
export async function loadMessageIdKey(sql: Sql): Promise<Buffer> {
  const [row] = await withDatabaseDeadline(sql<{ key: Buffer }[]>`select message_id_key() as key`);
  return (row as { key: Buffer }).key;
}
