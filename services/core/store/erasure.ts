import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { MessageKey } from './messages.ts';

/** `live`: it may still be sent, and keeps its content. */
export type Erasure = 'erased' | 'empty' | 'live';

/** Deletes what a message says, for good; who it went to and what became of it stays. */
export async function eraseContent(
  tx: TransactionSql,
  { seq, purge_on }: Pick<MessageKey, 'seq' | 'purge_on'>,
): Promise<Erasure> {
  const [row] = await tx<{ erasure: Erasure }[]>`select erase_content(${seq}, ${purge_on}) as erasure`;
  if (row === undefined) throw new Error('erase_content returned no row');
  return row.erasure;
}
