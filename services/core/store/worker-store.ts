import type { AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { FailoverFacts, Rerouted } from '#core/domain/routing/failover.ts';
import { isWaiting, type MessageState } from '#core/domain/message/message-state.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { LeftReason, UnsentReason } from '#core/domain/routing/skipped-account.ts';
import type { StatusReason } from '#core/domain/message/status-reason.ts';
import { asJson, withDeadline } from '#core/platform/postgres/postgres.ts';
import type { Json, Sql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from './after-commit.ts';
import { boundedQueries } from './bounded-queries.ts';
import type { Bounded } from './bounded-queries.ts';
import { accountStore } from './called-accounts.ts';
import { suppressCaused } from './caused-suppressions.ts';
import type { ClaimedMessage } from './claimed-message.ts';
import { arrayOf, claimStore, searchedTerms } from './claims.ts';
import type { Completion } from './completion.ts';
import { feedNumberingStore } from './feed-numbering.ts';
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
import { lookupStore } from './lookups.ts';
import { endOutlived, type OutlivedPage } from './outlived-messages.ts';
import { maintainPartitions, makePartitions } from './partitions.ts';
import { receiptStore } from './receipts.ts';
import { silentMessageStore } from './silent-messages.ts';
import { usageCountingStore } from './usage-counting.ts';

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
const RETURNED = 'no_other_account' satisfies StatusReason;

/**
 * Creates the worker's side of the store. Everything here works across tenants through functions of the schema; the worker's role
 * cannot access tables. `deadlineMs` bounds every call.
 * @param addressKeys computes the keys of suppressed recipients.
 */
export function workerStore(sql: Sql, deadlineMs: number, addressKeys: AddressKeyRoot) {
  const bounded: Bounded = (work) => withDeadline(work, deadlineMs);
  const { count, rowsOf, seqsOf, value } = boundedQueries(bounded);

  return {
    ...claimStore(sql, bounded),

    // What was not claimed --------------------------------------------------------------------------------------------
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
        sql`select * from find_waiting_due(${tenantId}, ${accountId}, ${most}, ${readsMax}, ${arrayOf(dueFrom)}::float8[],
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
    /** Returns accounts that are neither disabled nor deleted, the oldest first. */
    accountsOf: (tenantIds: readonly string[]) =>
      rowsOf<{ tenantId: string; id: string; channel: Channel; provider: string; status: string }>(
        sql`select tenant_id, id, channel, provider, status from accounts_of(${[...tenantIds]}::uuid[])`,
      ),
    /** Returns the routes that the tenants have set. */
    routesOf: (tenantIds: readonly string[]) =>
      rowsOf<Route & { tenantId: string }>(
        sql`select tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms
          from routes_of(${[...tenantIds]}::uuid[])`,
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
        sql`select move_messages(${[...seqs]}::bigint[], 'sent', ${sql.json({ why })}, ${RETURNED}) as seq`,
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
        sql`select * from find_delayed(${tenantId}, ${accountId}, ${most}, ${arrayOf(dueFrom)}::float8[],
          ${after?.priority ?? null}::smallint, ${after?.dueUs ?? null}::bigint, ${after?.seq ?? null}::bigint)`,
      ),

    /** Returns the facts for the failover of refused messages, without messages that must stay with their account. */
    failoverFacts: (seqs: readonly number[]) =>
      rowsOf<FailoverRow>(sql`select * from failover_facts(${[...seqs]}::bigint[])`),

    // Ends ------------------------------------------------------------------------------------------------------------
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
          if (back.length > 0) await tx`select move_messages(${back}::bigint[], 'sent', null, ${RETURNED})`;
          await suppressCaused(tx, addressKeys, 'refusal', caused);
          return applied;
        }),
      );
    },
    /** Returns a content that is stored apart from its message; null if it no longer exists. */
    async loadContent({ seq, purgeOn }: Pick<ClaimedMessage, 'seq' | 'purgeOn'>): Promise<unknown> {
      const content = await value<string | null>(sql`select load_content(${seq}, ${purgeOn}) as n`);
      return content == null ? null : (JSON.parse(content) as unknown);
    },
    /** Deletes contents whose messages were never accepted. Returns how many it processed. */
    settleContents: (most: number) => count(sql`select settle_contents(${most}) as n`),
    /** Releases events that still wait for their order although their endpoint no longer asks for it. Returns how many. */
    releaseDeliveries: (most: number) => count(sql`select release_deliveries(${most}) as n`),
    ...receiptStore(sql, bounded, addressKeys),
    ...accountStore(sql, bounded),
    ...lookupStore(sql, bounded),
    ...silentMessageStore(sql, bounded, addressKeys),
    ...feedNumberingStore(sql, bounded),
    ...usageCountingStore(sql, bounded),

    // Tenants ---------------------------------------------------------------------------------------------------------
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
    /** `limits` is null for a tenant without a row of its own, which has the free plan. */
    tenantLimits: (ids: readonly string[]) =>
      rowsOf<{ tenantId: string; limits: Limits | null }>(
        sql`select tenant_id, limits from tenant_limits_of(${[...ids]}::uuid[])`,
      ),

    // Upkeep ----------------------------------------------------------------------------------------------------------
    /** Returns the purge days that have come and of which messages are still live. */
    unsettledDays: async (): Promise<string[]> =>
      (await bounded(sql<{ day: string }[]>`select unsettled_days() as day`)).map(({ day }) => day),
    /** Ends messages by name that still wait when their retention is over, before their records are dropped. */
    endOutlived: (size: OutlivedPage) => endOutlived(sql, bounded, size),
    /** Makes partitions ahead and drops expired ones. One worker at a time does this; the others return at once. */
    maintain: () => maintainPartitions(sql, bounded),
    /** Makes partitions ahead and nothing else; as `maintain`, one worker at a time. */
    makePartitions: () => makePartitions(sql, bounded),
    /** Deletes secrets that were replaced more than a quarter of an hour ago. */
    async forgetReplacedSecrets(): Promise<void> {
      await bounded(sql`select forget_replaced_secrets()`);
    },
  };
}

export type WorkerStore = ReturnType<typeof workerStore>;

/** In the names that `assign_accounts` reads; `details` are the event's details. */
const assignedTerms = ({ seq, from, rerouted, why, waitedMs }: Assignment) => ({
  seq,
  from,
  to: rerouted.accountId,
  details: { reason: 'failed_over', from, why, waitedMs, rerouted },
});
