import type { Channel } from '#core/domain/message/channel.ts';
import type { WaitingMessage } from '#core/domain/sending/decide-waiting.ts';
import type { Json } from '#core/platform/postgres/postgres.ts';

/** A tenant's queue for one account. */
export type Lane = { readonly tenantId: string; readonly accountId: string };

/** By priority, in ms since the epoch: a look has shown that nothing in the lane is due before. */
export type DueFrom = readonly [high: number, normal: number, bulk: number];

/** A lane to search; without `dueFrom` the whole lane. */
export type SearchedLane = Lane & { readonly dueFrom?: DueFrom | undefined };

/** A waiting message that was not claimed; see the view `waiting_message`. */
export type WaitingRow = WaitingMessage & {
  readonly seq: number;
  readonly id: string;
  readonly tenantId: string;
  readonly channel: Channel;
  readonly attempt: number;
  readonly waitsSince: Date;
  readonly requestId: string | null;
  readonly rateLimitPerSecond: number | null;
  /** The account's provider; null if the account is deleted or there is none. */
  readonly provider: string | null;
};

/** Bounds of one page of a lane, for each priority: messages to find and messages to read. */
export type WaitingPageSize = { readonly most: number; readonly readsMax: number };

/** Where a page of a lane ended, by priority, in the format of `find_waiting_due`, its only reader. */
export type LanePlaces = readonly (Readonly<Record<string, Json>> | null)[];

export type WaitingPage = {
  readonly rows: readonly WaitingRow[];
  /** Where the next page begins; undefined: the whole lane has been read. */
  readonly next: LanePlaces | undefined;
};

/** The part of a lane that a claim reads. */
export type ClaimedLane = SearchedLane & {
  /** How long before its due time a message may be claimed, in milliseconds. */
  readonly aheadMs: number;
};

/** A lane to claim from, with the bounds of the claim. */
export type LaneClaim = ClaimedLane & {
  readonly most: number;
  /** Messages to leave out. */
  readonly aside?: readonly number[];
};

/** The result of an earlier look for due messages, by the database's clock. */
export type EarlierLook = {
  /** The look found everything that was due by this time. */
  readonly after: Date;
  /** Lanes in which something was due before that time. */
  readonly older: readonly (Lane & { readonly dueFrom: readonly number[] })[];
};

/** A row of a look for due messages. */
export type DueRow =
  | (Lane & {
      readonly task: 'due';
      /** Plus `SCHEDULED_PRIORITY` for scheduled messages. */
      readonly priority: number;
      /** When the longest due message became due. */
      readonly dueAt: Date;
      /** Whether the tenant is active and no brake holds the lane's channel. */
      readonly isActive: boolean;
      /** Whether a brake slows the lane's channel. */
      readonly isSlowed: boolean;
    })
  /** An active tenant with held messages. */
  | { readonly task: 'release'; readonly tenantId: string }
  /** The last row: the time of the look. */
  | { readonly task: 'looked'; readonly dueAt: Date };

export type SweepTask =
  /** `isSlowed`: a brake slows the channel, so waiting messages are not late. */
  | (Lane & { readonly task: 'due'; readonly oldestDue: Date; readonly isSlowed: boolean })
  /** A due lane of a suspended tenant or a held channel: attempts of dead workers are ended there too. */
  | (Lane & { readonly task: 'review' })
  /** For scheduled messages. */
  | { readonly task: 'queue'; readonly tenantId: string; readonly oldestDue: Date }
  | { readonly task: 'hold' | 'release'; readonly tenantId: string };

/** Added to a live row's priority while its message is scheduled; it equals the number of priorities. */
export const SCHEDULED_PRIORITY = 3;
