import type { AddressKeyRoot } from '#core/domain/address-key.ts';
import type { BrakeLevel } from '#core/domain/brake.ts';
import type { CallEnd } from '#core/domain/call-end.ts';
import type { Channel } from '#core/domain/channel.ts';
import type { WaitingMessage } from '#core/domain/decide-waiting.ts';
import type { FailoverFacts, Rerouted } from '#core/domain/failover.ts';
import type { MessageState } from '#core/domain/message-state.ts';
import type { PartitionTask } from '#core/domain/partition-task.ts';
import type { Limits } from '#core/domain/plan.ts';
import type { Route } from '#core/domain/route.ts';
import type { LeftReason, UnsentReason } from '#core/domain/skipped-account.ts';
import type { StatusReason } from '#core/domain/status-reason.ts';
import type { SuppressionCause } from '#core/domain/suppression-cause.ts';
import { asJson, withDeadline, type Json, type Sql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from './after-commit.ts';
import { suppressCaused } from './caused-suppressions.ts';
import { accountStore } from './called-accounts.ts';
import { boundedQueries, type Bounded } from './bounded-queries.ts';
import { camelRows, type ValuesQuery } from './camel-rows.ts';
import { feedNumberingStore } from './feed-numbering.ts';
import { lookupStore } from './lookups.ts';
import { receiptStore } from './receipts.ts';
import { maintainPartitions } from './partitions.ts';
import { silentMessageStore } from './silent-messages.ts';
import { usageCountingStore } from './usage-counting.ts';

/** A message that a worker has to act on; see the view `claimed_message`. */
export type ClaimedMessage = {
  /** `lost`: the worker that had begun the attempt is gone, and it is to be settled. */
  readonly action: 'send' | 'lost';
  readonly seq: number;
  readonly purgeOn: string;
  readonly id: string;
  readonly tenantId: string;
  readonly attempt: number;
  readonly retries: number;
  readonly ambiguous: number;
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  readonly channel: Channel;
  readonly address: string;
  readonly sender: string | null;
  /** The channel's content, as the api validated it; null with `lost`. */
  readonly content: unknown;
  /** Null where they do not count towards a claim's `bytesMax`. */
  readonly contentBytes: number | null;
  readonly test: boolean;
  readonly segments: number | null;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once';
  /** Its acceptance; the instant that its sender named where that is later. */
  readonly waitsSince: Date;
  readonly expiresAt: Date;
  readonly traceparent: string | null;
  /** Of the request that sent it; null where none did. */
  readonly requestId: string | null;
  /** Null in test mode, where a simulator answers. */
  readonly accountId: string | null;
  readonly provider: string;
  readonly accountStatus: string | null;
  readonly accountVersion: number | null;
  /** In segments; null without a limit. */
  readonly rateLimitPerSecond: number | null;
  /** Whether the content is to go as soon as no provider needs it. */
  readonly discard: boolean;
  /** Of the category `marketing`: its recipient may unsubscribe from it. */
  readonly marketing: boolean;
  /** The sender named the account. */
  readonly pinned: boolean;
  /** The account that accepted it before and did not report on it in time; null where none has. */
  readonly sentAccountId: string | null;
  /** When it was given back that was held, for the last time; null where it never was. */
  readonly releasedAt: Date | null;
  /** A brake slows its channel: it has waited for its turn. */
  readonly isSlowed: boolean;
  /**
   * With `send`: until when the attempt is surely ours, as `performance.now()` tells time. Counted from before the claim was
   * sent, so that a late answer, or a pause of this process, makes it no longer.
   */
  readonly leaseEndsAt: number;
};

/** A message that waits and was not claimed; see the view `waiting_message`. */
export type WaitingRow = WaitingMessage & {
  readonly seq: number;
  readonly id: string;
  readonly tenantId: string;
  readonly channel: Channel;
  readonly attempt: number;
  readonly waitsSince: Date;
  readonly requestId: string | null;
  readonly rateLimitPerSecond: number | null;
  /** Of its account; null where that is deleted, or there is none. */
  readonly provider: string | null;
};

/** Puts a waiting message into the queue of another account. */
export type Assignment = {
  readonly seq: number;
  /** The account that it waits for. */
  readonly from: string;
  readonly rerouted: Rerouted;
  readonly why: LeftReason;
  readonly waitedMs: number;
};

/** A message of a lane that is due for longer than its route has it wait. */
export type DelayedMessage = {
  readonly seq: number;
  readonly priority: number;
  /** Since when it is due, in microseconds since the epoch. */
  readonly dueUs: number;
  /** Whether another account may have it at all. */
  readonly isMovable: boolean;
};

/** How an attempt ended and what follows, in the names that `complete` reads. What is undefined does not travel. */
export type Completion = {
  readonly seq: number;
  readonly purge_on: string;
  readonly attempt: number;
  readonly outcome: string;
  readonly outcome_reason: string | undefined;
  readonly failure: Json | undefined;
  readonly http_status: number | undefined;
  readonly provider_message_id: string | undefined;
  readonly found_by_id: true | undefined;
  readonly sent_from: string | undefined;
  readonly status: string;
  readonly reason: string | undefined;
  readonly failure_shown: Json | undefined;
  readonly rerouted: Json | undefined;
  /** Only with `rerouted`. */
  readonly called_account: string | undefined;
  readonly next_attempt_ms: number | undefined;
  readonly retries: number;
  readonly ambiguous: number;
  readonly provider_waits: number;
  readonly duplicate_risk: boolean;
  readonly final: boolean;
  readonly await_ms: number | undefined;
  readonly failover_ms: number | undefined;
  /** The message is sent by an earlier call, as this one was not accepted. */
  readonly returns: true | undefined;
  readonly receipts: Json | undefined;
  readonly discard: boolean;
  /** How the call speaks of its account, and how long it took in whole milliseconds; both or none, where none was made. */
  readonly call_end?: CallEnd;
  readonly call_ms?: number;
  /** Why its recipient is to get nothing more. */
  readonly suppress?: SuppressionCause | undefined;
};

/** Without a route of the tenant's own its columns are null. */
export type FailoverRow = { readonly seq: number } & Required<Pick<FailoverFacts, 'usable' | 'invalid'>> & {
    /** What each usable account is one of, by their order. */
    readonly providers: readonly string[];
    readonly version: number | null;
    readonly strategy: Route['strategy'] | null;
    readonly steps: Route['steps'] | null;
    readonly failoverOn: Route['failoverOn'] | null;
    readonly tried: FailoverFacts['tried'] | null;
  };

/** A tenant's queue for one account. */
export type Lane = { readonly tenantId: string; readonly accountId: string };

/** By priority, in ms since the epoch: before this nothing of a lane is due, as a look has shown. */
export type DueFrom = readonly [high: number, normal: number, bulk: number];

/** A lane to search; without `dueFrom` all of it. */
export type SearchedLane = Lane & { readonly dueFrom?: DueFrom | undefined };

/** How much of a lane one page looks at, of each priority: most messages to find, and most to read. */
export type WaitingPageSize = { readonly most: number; readonly readsMax: number };

/** Where a page of a lane has ended, by priority, in the words of `find_waiting_due`, which alone reads them. */
export type LanePlaces = readonly (Readonly<Record<string, Json>> | null)[];

export type WaitingPage = {
  readonly rows: readonly WaitingRow[];
  /** Where the next page begins; undefined: all of the lane has been read. */
  readonly next: LanePlaces | undefined;
};

/** What to claim out of a lane. */
export type LaneClaim = SearchedLane & {
  readonly most: number;
  /** How long before it is due a message may be claimed, in milliseconds. */
  readonly aheadMs: number;
};

/** What an earlier look for due messages has shown, by the database's clock. */
export type EarlierLook = {
  /** Up to then it has found all. */
  readonly after: Date;
  /** Lanes that had something due before. */
  readonly older: readonly (Lane & { readonly dueFrom: readonly number[] })[];
};

/** A row of a look for due messages. */
export type DueRow =
  | (Lane & {
      readonly task: 'due';
      /** With `SCHEDULED_PRIORITY` more for messages that are scheduled. */
      readonly priority: number;
      /** Of the longest due. */
      readonly dueAt: Date;
      /** The tenant is, and no brake holds the lane's channel. */
      readonly isActive: boolean;
      /** A brake slows the lane's channel. */
      readonly isSlowed: boolean;
    })
  /** An active tenant with messages that are held. */
  | { readonly task: 'release'; readonly tenantId: string }
  /** The last one: when was looked. */
  | { readonly task: 'looked'; readonly dueAt: Date };

export type SweepTask =
  /** `isSlowed`: a brake slows its channel, so that what waits is not late. */
  | (Lane & { readonly task: 'due'; readonly oldestDue: Date; readonly isSlowed: boolean })
  /** Of messages that are scheduled. */
  | { readonly task: 'queue'; readonly tenantId: string; readonly oldestDue: Date }
  | { readonly task: 'hold' | 'release'; readonly tenantId: string };

/** Of a live row's priority while its message is scheduled: there are as many priorities. */
export const SCHEDULED_PRIORITY = 3;

/** Of contents in one answer of a claim that are large enough to count (`COUNTED_BYTES_MIN`). */
export const CLAIM_BYTES_MAX = 768 * 1024;

/** Why a message is `sent` again that was to go out through another account. */
const RETURNED = 'no_other_account' satisfies StatusReason;

export type ClaimTerms = {
  /** Names this start of the process, and no other one: what is claimed under it is its own. */
  readonly worker: string;
  readonly leaseMs: number;
  /** Default `CLAIM_BYTES_MAX`. What goes beyond it is left for the next claim. */
  readonly bytesMax?: number;
};

/**
 * The worker's side of the store. Everything here works across tenants through functions of the schema; the worker's
 * role can touch no table. Every call is bounded by `deadlineMs`.
 * @param addressKeys Makes the keys of recipients that are suppressed.
 */
export function deliveryStore(sql: Sql, deadlineMs: number, addressKeys: AddressKeyRoot) {
  const bounded: Bounded = (work) => withDeadline(work, deadlineMs);
  const { count, rowsOf, seqsOf, value } = boundedQueries(bounded);
  /** The lease begins in the database, after the question was sent. */
  const claimed = async (query: ValuesQuery, leaseMs: number): Promise<ClaimedMessage[]> => {
    const leaseEndsAt = performance.now() + leaseMs;
    return camelRows<ClaimedMessage>(await bounded(query.values()), { leaseEndsAt });
  };

  return {
    // Claims ----------------------------------------------------------------------------------------------------------
    /**
     * Claims what waits, is due and may be sent now.
     * @param beyondLimit also through an account with a rate limit, without tokens.
     */
    claim: (
      seqs: readonly number[],
      { worker, leaseMs, bytesMax = CLAIM_BYTES_MAX }: ClaimTerms,
      beyondLimit = false,
    ) =>
      claimed(
        sql`select * from claim(${[...seqs]}::bigint[], ${worker}, ${leaseMs}, ${beyondLimit}, ${bytesMax})`,
        leaseMs,
      ),
    /**
     * Claims out of lanes, each named once, of each the longest due first, and within its account's rate limit.
     * `bytesMax` is for each of the lanes.
     */
    claimDue: (lanes: readonly LaneClaim[], { worker, leaseMs, bytesMax = CLAIM_BYTES_MAX }: ClaimTerms) =>
      claimed(
        sql`select * from claim_due(${asJson(sql, lanes.map(laneTerms))}, ${worker}, ${leaseMs}, ${bytesMax})`,
        leaseMs,
      ),
    /** The messages that a claim of the lane would try; only their numbers are read. */
    dueSeqs: ({ tenantId, accountId, dueFrom }: SearchedLane, most: number, aheadMs: number) =>
      seqsOf(
        sql`select due_seqs(${tenantId}, ${accountId}, ${most}, ${aheadMs}, ${arrayOf(dueFrom)}::float8[]) as seq`,
      ),
    /** Of a tenant's messages that this worker has claimed and not settled, the first after `afterSeq`; none at the end. */
    claimedBy: (tenantId: string, { worker, leaseMs }: ClaimTerms, afterSeq: number) =>
      claimed(
        sql`select * from claimed_by(${tenantId}, ${worker}, ${afterSeq}, ${CLAIM_BYTES_MAX})`,
        // At least half of it is left of what this returns.
        leaseMs / 2,
      ),
    /** Those of the messages whose worker is gone, to be settled. */
    lost: (seqs: readonly number[]) => claimed(sql`select * from lost(${[...seqs]}::bigint[])`, 0),

    // What was not claimed --------------------------------------------------------------------------------------------
    findWaiting: (seqs: readonly number[]) =>
      rowsOf<WaitingRow>(sql`select * from find_waiting(${[...seqs]}::bigint[])`),
    /**
     * Due messages of a lane that no claim takes, of one page of it.
     * @param at where the page before has ended; undefined: the lane's beginning.
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
    /** Scheduled messages of a tenant whose instant has come. @param dueFrom before this none of them is due. */
    findScheduledDue: (tenantId: string, most: number, dueFrom: Date) =>
      rowsOf<WaitingRow>(
        sql`select * from find_scheduled_due(${tenantId}, ${most}, ${dueFrom.toISOString()})`,
      ),
    /** Accounts that are neither disabled nor deleted, the oldest first. */
    accountsOf: (tenantIds: readonly string[]) =>
      rowsOf<{ tenantId: string; id: string; channel: Channel; provider: string; status: string }>(
        sql`select tenant_id, id, channel, provider, status from accounts_of(${[...tenantIds]}::uuid[])`,
      ),
    /** The routes that the tenants have set. */
    routesOf: (tenantIds: readonly string[]) =>
      rowsOf<Route & { tenantId: string }>(
        sql`select tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms
          from routes_of(${[...tenantIds]}::uuid[])`,
      ),
    /** These two pass over messages that have changed since they were read, and return those that they moved. */
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
    /** Those of these messages that a provider has accepted before are sent as they were, and no other account sends them. */
    returnSent: (seqs: readonly number[], why: UnsentReason) =>
      seqsOf(
        sql`select move_messages(${[...seqs]}::bigint[], 'sent', ${sql.json({ why })}, ${RETURNED}) as seq`,
      ),
    assignAccounts: (moves: readonly Assignment[]) =>
      seqsOf(sql`select assign_accounts(${asJson(sql, moves.map(assignedTerms))}) as seq`),
    /** Of lanes that are not claimed from now those whose messages go on to another account in the end. */
    delayedLanes: (lanes: readonly Lane[]) =>
      rowsOf<Lane>(
        sql`select * from delayed_lanes(${lanes.map(({ tenantId }) => tenantId)}::uuid[],
          ${lanes.map(({ accountId }) => accountId)}::uuid[])`,
      ),
    /** A page of the lane's messages that wait for too long; it begins after the message `after`. */
    findDelayed: (
      { tenantId, accountId, dueFrom }: SearchedLane,
      most: number,
      after: DelayedMessage | undefined,
    ) =>
      rowsOf<DelayedMessage>(
        sql`select * from find_delayed(${tenantId}, ${accountId}, ${most}, ${arrayOf(dueFrom)}::float8[],
          ${after?.priority ?? null}::smallint, ${after?.dueUs ?? null}::bigint, ${after?.seq ?? null}::bigint)`,
      ),

    /** What decides where messages go whose call was refused; without those that stay with their account. */
    failoverFacts: (seqs: readonly number[]) =>
      rowsOf<FailoverRow>(sql`select * from failover_facts(${[...seqs]}::bigint[])`),

    // Ends ------------------------------------------------------------------------------------------------------------
    /** Returns the messages whose completion counted; the others' attempts were no longer current. */
    complete(batch: readonly Completion[]): Promise<Set<number>> {
      const causes = batch.flatMap(({ seq, purge_on: purgeOn, suppress: cause }) =>
        cause === undefined ? [] : [{ seq, purgeOn, cause }],
      );
      const returned = batch.flatMap(({ seq, returns }) => (returns === true ? [seq] : []));
      if (causes.length + returned.length === 0)
        return seqsOf(sql`select complete(${asJson(sql, batch)}) as seq`);
      return bounded(
        inTransaction(sql, async (tx) => {
          const rows = await tx<{ seq: number }[]>`select complete(${asJson(tx, batch)}) as seq`;
          const applied = new Set(rows.map(({ seq }) => seq));
          const caused = causes.filter(({ seq }) => applied.has(seq));
          const back = returned.filter((seq) => applied.has(seq));
          if (back.length > 0) await tx`select move_messages(${back}::bigint[], 'sent', null, ${RETURNED})`;
          await suppressCaused(tx, addressKeys, 'refusal', caused);
          return applied;
        }),
      );
    },
    /** A content that is stored apart from its message; null where there is none any more. */
    async loadContent({ seq, purgeOn }: Pick<ClaimedMessage, 'seq' | 'purgeOn'>): Promise<unknown> {
      const content = await value<string | null>(sql`select load_content(${seq}, ${purgeOn}) as n`);
      return content == null ? null : (JSON.parse(content) as unknown);
    },
    /** Deletes contents whose messages were never accepted. This and the next one return how many they processed. */
    settleContents: (most: number) => count(sql`select settle_contents(${most}) as n`),
    ...receiptStore(sql, bounded, addressKeys),
    ...accountStore(sql, bounded),
    ...lookupStore(sql, bounded),
    ...silentMessageStore(sql, bounded, addressKeys),
    ...feedNumberingStore(sql, bounded),
    ...usageCountingStore(sql, bounded),

    // Tenants ---------------------------------------------------------------------------------------------------------
    /** Looks at all messages; with an earlier look only for what fell due since, and at lanes that had something due. */
    dueLanes: (earlier?: EarlierLook) =>
      rowsOf<DueRow>(
        earlier === undefined
          ? sql`select * from due_lanes()`
          : sql`select * from due_lanes(${earlier.after.toISOString()}, ${asJson(sql, earlier.older.map(searchedTerms))})`,
      ),
    holdTenant: (tenantId: string, most: number) => count(sql`select hold_tenant(${tenantId}, ${most}) as n`),
    releaseTenant: (tenantId: string, most: number) =>
      count(sql`select release_tenant(${tenantId}, ${most}) as n`),
    /** `limits` is null where a tenant has no row of its own: the free plan holds. */
    tenantLimits: (ids: readonly string[]) =>
      rowsOf<{ tenantId: string; limits: Limits | null }>(
        sql`select tenant_id, limits from tenant_limits_of(${[...ids]}::uuid[])`,
      ),
    /**
     * Messages for which a provider may still be called, of all tenants that may send; without those that are scheduled, and
     * those behind a brake.
     */
    backlogTotal: () => count(sql`select backlog as n from message_totals()`),
    scheduledTotal: () => count(sql`select scheduled as n from message_totals()`),
    brakedTotal: () => count(sql`select braked as n from message_totals()`),
    /** Of all tenants that may send; without levels that no channel is at. */
    brakedChannels: () =>
      rowsOf<{ level: BrakeLevel; channels: number }>(sql`select level, channels from count_brakes()`),

    // Upkeep ----------------------------------------------------------------------------------------------------------
    /** Ends by name what waits until its retention is over, before its record goes. Returns how many. */
    endOutlived: (most: number) => count(sql`select end_outlived(${most}) as n`),
    /** Makes partitions ahead and drops those that have served; one worker at a time, the others return at once. */
    maintain: () => maintainPartitions(sql, bounded),
    /** What `maintain` has left; `blocked`: rows of the week are in the default partition, until they have served their time. */
    partitionsDue: () =>
      rowsOf<{ task: PartitionTask; partitions: number }>(sql`select task, partitions from partitions_due()`),
    /** How long the deletion of a tenant that began first has taken; 0 where none is under way. */
    oldestDeletionSeconds: () => count(sql`select oldest_deletion_seconds() as n`),
    /** Empties what a new secret has replaced, once its quarter of an hour is over. */
    async forgetReplacedSecrets(): Promise<void> {
      await bounded(sql`select forget_replaced_secrets()`);
    },
  };
}

export type DeliveryStore = ReturnType<typeof deliveryStore>;

/** In the names that `assign_accounts` reads; `details` are those of the event. */
const assignedTerms = ({ seq, from, rerouted, why, waitedMs }: Assignment) => ({
  seq,
  from,
  to: rerouted.accountId,
  details: { reason: 'failed_over', from, why, waitedMs, rerouted },
});

const laneTerms = ({ most, aheadMs, ...lane }: LaneClaim) => ({
  ...searchedTerms(lane),
  most,
  ahead_ms: aheadMs,
});

const searchedTerms = ({
  tenantId,
  accountId,
  dueFrom,
}: Lane & { dueFrom?: readonly number[] | undefined }) => ({
  tenant_id: tenantId,
  account_id: accountId,
  due_from: arrayOf(dueFrom),
});

const arrayOf = (dueFrom: readonly number[] | undefined): number[] | null =>
  dueFrom === undefined ? null : [...dueFrom];
