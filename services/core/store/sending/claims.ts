import { INLINE_BYTES_MAX } from '#core/domain/message/content.ts';
import { isLockRefused } from '#core/domain/storage/database-fault.ts';
import { asJson } from '#core/platform/postgres/postgres.ts';
import type { Json, Sql } from '#core/platform/postgres/postgres.ts';
import { rolledBack } from '../query/after-commit.ts';
import { boundedQueries } from '../query/bounded-queries.ts';
import type { Bounded } from '../query/bounded-queries.ts';
import { camelRows } from '../query/camel-rows.ts';
import type { ValuesQuery } from '../query/camel-rows.ts';
import type { ClaimedMessage, MessageClaimTerms } from './claimed-message.ts';
import { CLAIM_BYTES_MAX } from './claimed-message.ts';
import type { ClaimedLane, Lane, LaneClaim, SearchedLane } from './lane.ts';
import { openClaims } from './open-claims.ts';

/** Where a page of a search for claimed messages ended, in the format of `claimed_in`, its only reader. */
export type ClaimedPlace = Readonly<Record<string, Json>>;

export type ClaimedPage = {
  /** Attempts under way that this worker has begun. */
  readonly found: readonly { readonly seq: number; readonly attempt: number }[];
  /** Number of rows that the page has read. */
  readonly reads: number;
  /** Where the next page begins; undefined: everything has been read. */
  readonly next: ClaimedPlace | undefined;
};

/** Claims of messages, and searches for what a claim without an answer has taken. @param bounded gives a query its deadline. */
export function claimStore(sql: Sql, bounded: Bounded) {
  const { rowsOf, seqsOf } = boundedQueries(bounded);
  const claims = openClaims();
  /** Counts the lease from before the query: the database starts it later, so this end is never too late. */
  const claimed = async (query: ValuesQuery, leaseMs: number): Promise<ClaimedMessage[]> => {
    const leaseEndsAt = performance.now() + leaseMs;
    return camelRows<ClaimedMessage>(await bounded(query.values()), { leaseEndsAt });
  };
  const newlyClaimed = (query: ValuesQuery, leaseMs: number) => claimed(claims.follow(query), leaseMs);

  /** @returns `claims_open` while a claim of this worker may still take messages: what it takes cannot be seen yet. */
  async function afterClaims<T>(leaseMs: number, search: () => Promise<T>): Promise<T | 'claims_open'> {
    if (claims.isOpen(leaseMs)) return 'claims_open';
    try {
      return await search();
    } catch (error) {
      if (isLockRefused(error)) return 'claims_open';
      throw error;
    }
  }

  return {
    /** Claims messages that wait, are due and may be sent now. */
    claim: (seqs: readonly number[], { worker, leaseMs, bytesMax = CLAIM_BYTES_MAX }: MessageClaimTerms) =>
      newlyClaimed(
        sql`select * from claim(${[...seqs]}::bigint[], ${worker}, ${leaseMs}, false, ${bytesMax})`,
        leaseMs,
      ),
    /**
     * Claims messages, also beyond their account's rate limit and their channel's brake, and rolls it back. The database reads what a
     * claim would return, and returns only the numbers.
     * @returns the messages that were claimed.
     * @throws the error of the claim.
     */
    async tryClaim(
      seqs: readonly number[],
      { worker, leaseMs }: Pick<MessageClaimTerms, 'worker' | 'leaseMs'>,
    ): Promise<number[]> {
      const rows = await bounded(
        rolledBack(
          sql,
          (tx) => tx<{ seq: number; length: number }[]>`select c.seq, length(c::text)
            from claim(${[...seqs]}::bigint[], ${worker}, ${leaseMs}, true, ${seqs.length * INLINE_BYTES_MAX}) c`,
        ),
      );
      return rows.map(({ seq }) => seq);
    },
    /**
     * Claims from lanes, each named once: the longest due messages of each lane first, within its account's rate limit.
     * `bytesMax` applies to each lane.
     */
    claimDue: (
      lanes: readonly LaneClaim[],
      { worker, leaseMs, bytesMax = CLAIM_BYTES_MAX }: MessageClaimTerms,
    ) =>
      newlyClaimed(
        sql`select * from claim_due(${asJson(sql, lanes.map(laneTerms))}, ${worker}, ${leaseMs}, ${bytesMax})`,
        leaseMs,
      ),
    /** Returns the messages that a claim of the lane would try; it reads only their numbers. */
    dueSeqs: ({ tenantId, accountId, dueFrom }: SearchedLane, most: number, aheadMs: number) =>
      seqsOf(
        sql`select due_seqs(${tenantId}, ${accountId}, ${most}, ${aheadMs}, ${arrayOrNull(dueFrom)}::float8[]) as seq`,
      ),
    /**
     * Returns the first of these messages after `afterSeq` that this worker has claimed and not settled; none at the end.
     * `isLate`: false for those with at least half of their lease left; true for the others, whose lease is returned as ended.
     */
    claimedBy: (
      seqs: readonly number[],
      { worker, leaseMs }: MessageClaimTerms,
      { isLate, afterSeq }: { readonly isLate: boolean; readonly afterSeq: number },
    ) =>
      afterClaims(leaseMs, () =>
        claimed(
          sql`select * from claimed_by(${[...seqs]}::bigint[], ${worker}, ${isLate}, ${afterSeq}, ${CLAIM_BYTES_MAX})`,
          isLate ? 0 : leaseMs / 2,
        ),
      ),
    /**
     * Returns one page of what this worker may have claimed from a lane and not settled.
     * @param lane as in the claim, so that the search covers what the claim has read.
     * @param at where the page before ended; undefined: the beginning.
     */
    claimedIn: (
      { tenantId, accountId, aheadMs, dueFrom }: ClaimedLane,
      { worker, leaseMs }: MessageClaimTerms,
      readsMax: number,
      at?: ClaimedPlace,
    ) =>
      afterClaims(leaseMs, async (): Promise<ClaimedPage> => {
        const [page] = await rowsOf<{
          seqs: number[];
          attempts: number[];
          reads: number;
          nextPlace: ClaimedPlace | null;
        }>(
          sql`select * from claimed_in(${tenantId}, ${accountId}, ${worker}, ${leaseMs}, ${aheadMs}, ${readsMax},
            ${arrayOrNull(dueFrom)}::float8[], ${at === undefined ? null : asJson(sql, at)})`,
        );
        const { seqs = [], attempts = [], reads = 0, nextPlace } = page ?? {};
        const found = seqs.map((seq, i) => ({ seq, attempt: attempts[i] ?? 0 }));
        return { found, reads, next: nextPlace ?? undefined };
      }),
    /** Returns those of the messages whose worker is gone, to be settled. */
    lost: (seqs: readonly number[]) => claimed(sql`select * from lost(${[...seqs]}::bigint[])`, 0),
  };
}

const laneTerms = ({ most, aheadMs, aside = [], ...lane }: LaneClaim) => ({
  ...searchedTerms(lane),
  most,
  ahead_ms: aheadMs,
  ...(aside.length === 0 ? {} : { aside }),
});

export const searchedTerms = ({
  tenantId,
  accountId,
  dueFrom,
}: Lane & { dueFrom?: readonly number[] | undefined }) => ({
  tenant_id: tenantId,
  account_id: accountId,
  due_from: arrayOrNull(dueFrom),
});

export const arrayOrNull = (dueFrom: readonly number[] | undefined): number[] | null =>
  dueFrom === undefined ? null : [...dueFrom];
