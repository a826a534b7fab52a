import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { isWaiting } from '#core/domain/message/message-state.ts';
import { asJson, type Sql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from '../query/after-commit.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { suppressCaused } from '../suppressions/caused-suppressions.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import type { Completion } from './completion.ts';
import { NO_OTHER_ACCOUNT } from './waiting-messages.ts';

/** The content and the end of a call. @param bounded gives a query its deadline. */
export function completedMessageStore(sql: Sql, bounded: Bounded, addressKeys: AddressKeyRoot) {
  const { seqsOf, value } = boundedQueries(bounded);
  return {
    /** Returns a content that is stored apart from its message; null if it no longer exists. */
    async loadContent({ seq, purgeOn }: Pick<ClaimedMessage, 'seq' | 'purgeOn'>): Promise<unknown> {
      const content = await value<string | null>(sql`select load_content(${seq}, ${purgeOn}) as n`);
      return content == null ? null : (JSON.parse(content) as unknown);
    },
    /** Returns the messages whose completion took effect; the attempts of the others were no longer current. */
    complete(batch: readonly Completion[]): Promise<Set<number>> {
      const causes = batch.flatMap(({ seq, purge_on: purgeOn, suppress: cause, returns }) => {
        // Receipts decide about a message that returns to `sent`.
        const isHit = cause === 'hard_bounce' && returns !== true;
        return cause === undefined ? [] : [{ seq, purgeOn, cause, isHit }];
      });
      const returned = batch.flatMap(({ seq, returns }) => (returns === true ? [seq] : []));
      const isMixed = new Set(batch.map(({ status }) => isWaiting(status))).size > 1;
      if (causes.length + returned.length === 0)
        return seqsOf(sql`select complete(${asJson(sql, batch)}, ${isMixed}) as seq`);
      return bounded(
        inTransaction(sql, async (tx) => {
          const rows = await tx<{ seq: number }[]>`select complete(${asJson(tx, batch)}, ${isMixed}) as seq`;
          const applied = new Set(rows.map(({ seq }) => seq));
          const caused = causes.filter(({ seq }) => applied.has(seq));
          const back = returned.filter((seq) => applied.has(seq));
          if (back.length > 0)
            await tx`select move_messages(${back}::bigint[], 'sent', null, ${NO_OTHER_ACCOUNT})`;
          await suppressCaused(tx, addressKeys, 'refusal', caused);
          return applied;
        }),
      );
    },
  };
}
