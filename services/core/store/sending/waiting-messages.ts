import type { FailoverFacts, Rerouted } from '#core/domain/routing/failover.ts';
import type { MessageState } from '#core/domain/message/message-state.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { LeftReason, UnsentReason } from '#core/domain/routing/skipped-account.ts';
import type { StatusReason } from '#core/domain/message/status-reason.ts';
import { asJson, type Json, type Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';
import { arrayOrNull, searchedTerms } from './claims.ts';
import type {
  DueRow,
  EarlierLook,
  Lane,
  LanePlaces,
  SearchedLane,
  WaitingPage,
  WaitingPageSize,
  WaitingRow,
} from './lane.ts';

/** Moves a waiting message into another account's queue. */
export type Assignment = {
  readonly seq: number;
  /** The account for which it waits. */
  readonly from: string;
  readonly rerouted: Rerouted;
  readonly why: LeftReason;
  readonly waitedMs: number;
};

/** A message of a lane that has been due for longer than its route allows. */
export type DelayedMessage = {
  readonly seq: number;
  readonly priority: number;
  /** When it became due, in microseconds since the epoch. */
  readonly dueUs: number;
  /** Whether another account may send it at all. */
  readonly isMovable: boolean;
};

/** The columns of the route are null if the tenant has set none. */
export type FailoverRow = { readonly seq: number } & Required<Pick<FailoverFacts, 'usable' | 'invalid'>> & {
    /** The provider of each usable account, in the same order. */
    readonly providers: readonly string[];
    readonly version: number | null;
    readonly strategy: Route['strategy'] | null;
    readonly steps: Route['steps'] | null;
    readonly failoverOn: Route['failoverOn'] | null;
    readonly tried: FailoverFacts['tried'] | null;
  };

/** The reason of a message that returns to `sent` because no other account sent it. */
export const NO_OTHER_ACCOUNT = 'no_other_account' satisfies StatusReason;

/** Messages that wait: which are due, and what becomes of those that no claim takes. @param bounded gives a query its deadline. */
export function waitingMessageStore(sql: Sql, bounded: Bounded) {
  const { count, rowsOf, seqsOf } = boundedQueries(bounded);
  return {
    /**
     * Looks at all messages or, after an earlier look, only at those that became due since and at lanes that had something due.
     */
    dueLanes: (earlier?: EarlierLook) =>
      rowsOf<DueRow>(
        earlier === undefined
          ? sql`select * from due_lanes()`
          : sql`select * from due_lanes(${earlier.after.toISOString()}, ${asJson(sql, earlier.older.map(searchedTerms))})`,
      ),
    holdTenant: (tenantId: string, most: number) => count(sql`select hold_tenant(${tenantId}, ${most}) as n`),
    releaseTenant: (tenantId: string, most: number) =>
      count(sql`select release_tenant(${tenantId}, ${most}) as n`),
    findWaiting: (seqs: readonly number[]) =>
      rowsOf<WaitingRow>(sql`select * from find_waiting(${[...seqs]}::bigint[])`),
    /**
     * Returns one page of a lane's due messages that no claim takes.
     * @param at where the page before ended; undefined: the beginning of the lane.
     */
    async findWaitingDue(
      { tenantId, accountId, dueFrom }: SearchedLane,
      { most, readsMax }: WaitingPageSize,
      at?: LanePlaces,
    ): Promise<WaitingPage> {
      const [page] = await rowsOf<{ seqs: number[]; nextPlaces: LanePlaces | null }>(
        sql`select * from find_waiting_due(${tenantId}, ${accountId}, ${most}, ${readsMax}, ${arrayOrNull(dueFrom)}::float8[],
          ${at === undefined ? null : asJson(sql, at)})`,
      );
      const seqs = page?.seqs ?? [];
      const rows =
        seqs.length === 0 ? [] : await rowsOf<WaitingRow>(sql`select * from find_waiting(${seqs}::bigint[])`);
      return { rows, next: page?.nextPlaces ?? undefined };
    },
    /** Returns scheduled messages of a tenant whose time has come. @param dueFrom none of them is due before this. */
    findScheduledDue: (tenantId: string, most: number, dueFrom: Date) =>
      rowsOf<WaitingRow>(
        sql`select * from find_scheduled_due(${tenantId}, ${most}, ${dueFrom.toISOString()})`,
      ),
    /** This function and `returnSent` skip messages that have changed since they were read, and return those that they moved. */
    moveMessages: (
      seqs: readonly number[],
      status: MessageState,
      failure: Json,
      reason: StatusReason | null = null,
    ) =>
      seqsOf(
        sql`select move_messages(${[...seqs]}::bigint[], ${status}, ${failure === null ? null : sql.json(failure)},
          ${reason}) as seq`,
      ),
    /** Returns those of these messages that a provider has accepted before to `sent`; no other account sends them. */
    returnSent: (seqs: readonly number[], why: UnsentReason) =>
      seqsOf(
        sql`select move_messages(${[...seqs]}::bigint[], 'sent', ${sql.json({ why })}, ${NO_OTHER_ACCOUNT}) as seq`,
      ),
    assignAccounts: (moves: readonly Assignment[]) =>
      seqsOf(sql`select assign_accounts(${asJson(sql, moves.map(assignedTerms))}) as seq`),
    /** Returns those of these lanes whose route moves messages that wait too long to another account. */
    delayedLanes: (lanes: readonly Lane[]) =>
      rowsOf<Lane>(
        sql`select * from delayed_lanes(${lanes.map(({ tenantId }) => tenantId)}::uuid[],
          ${lanes.map(({ accountId }) => accountId)}::uuid[])`,
      ),
    /** Returns a page of the lane's messages that have waited too long; it begins after the message `after`. */
    findDelayed: (
      { tenantId, accountId, dueFrom }: SearchedLane,
      most: number,
      after: DelayedMessage | undefined,
    ) =>
      rowsOf<DelayedMessage>(
        sql`select * from find_delayed(${tenantId}, ${accountId}, ${most}, ${arrayOrNull(dueFrom)}::float8[],
          ${after?.priority ?? null}::smallint, ${after?.dueUs ?? null}::bigint, ${after?.seq ?? null}::bigint)`,
      ),

    /** Returns the facts for the failover of refused messages, without messages that must stay with their account. */
    failoverFacts: (seqs: readonly number[]) =>
      rowsOf<FailoverRow>(sql`select * from failover_facts(${[...seqs]}::bigint[])`),
  };
}

/** In the names that `assign_accounts` reads; `details` are the event's details. */
const assignedTerms = ({ seq, from, rerouted, why, waitedMs }: Assignment) => ({
  seq,
  from,
  to: rerouted.accountId,
  details: { reason: 'failed_over', from, why, waitedMs, rerouted },
});
