import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import type { MessageKey } from './messages.ts';

/** `live`: the message may still be sent, and keeps its content. */
export type Erasure = 'erased' | 'empty' | 'live';

/** Deletes a message's content for good; its recipient and outcome stay. */
export async function eraseContent(
  tx: TransactionSql,
  { seq, purge_on }: Pick<MessageKey, 'seq' | 'purge_on'>,
): Promise<Erasure> {
  const [row] = await tx<{ erasure: Erasure }[]>`select erase_content(${seq}, ${purge_on}) as erasure`;
  if (row === undefined) throw new Error('erase_content returned no row');
  return row.erasure;
}
