import type { Channel } from '#core/domain/message/channel.ts';

/** A message that a worker must act on; see the view `claimed_message`. */
export type ClaimedMessage = {
  /** `lost`: the worker that began the attempt is gone, and the attempt must be settled. */
  readonly action: 'send' | 'lost';
  readonly seq: number;
  readonly purgeOn: string;
  readonly id: string;
  readonly tenantId: string;
  readonly attempt: number;
  readonly retries: number;
  readonly ambiguous: number;
  /**
   * When the first ambiguous attempt started, which may be this one if it is `lost`; null if no attempt was ambiguous.
   */
  readonly ambiguousSince: Date | null;
  readonly providerWaits: number;
  readonly duplicateRisk: boolean;
  readonly channel: Channel;
  readonly address: string;
  readonly sender: string | null;
  /** The channel's content, as the api validated it; null with `lost`. */
  readonly content: unknown;
  /** Null for a small content, which does not count towards a claim's `bytesMax`. */
  readonly contentBytes: number | null;
  readonly test: boolean;
  readonly segments: number | null;
  readonly deliveryGuarantee: 'at_least_once' | 'at_most_once';
  /** The time of acceptance, or the instant that its sender named if that is later. */
  readonly waitsSince: Date;
  readonly expiresAt: Date;
  readonly traceparent: string | null;
  /** Id of the request that sent it; null if no request did. */
  readonly requestId: string | null;
  /** Null in test mode, where a simulator answers. */
  readonly accountId: string | null;
  readonly provider: string;
  readonly accountStatus: string | null;
  readonly accountVersion: number | null;
  /** Whether the account is stored as not healthy by a worker that has ended. */
  readonly isHealthStale: boolean;
  /** Whether the credential of its account was refused since its last success that was stored. */
  readonly isAccountRefused: boolean;
  /**
   * Whether its account has moved to another server or vendor account since the first ambiguous attempt, or since this one if none
   * was ambiguous.
   */
  readonly isAccountMoved: boolean;
  /** In segments; null without a limit. */
  readonly rateLimitPerSecond: number | null;
  /** Whether to delete the content as soon as no provider needs it. */
  readonly discard: boolean;
  /** Whether its category is `marketing`: the recipient may then unsubscribe from it. */
  readonly marketing: boolean;
  /** Whether the sender named the account. */
  readonly pinned: boolean;
  /** The account that accepted it before and did not report in time; null if there is none. */
  readonly sentAccountId: string | null;
  /** When it was last released from `held`; null if it was never held. */
  readonly releasedAt: Date | null;
  /** Whether a brake slows its channel, so that it had to wait for a turn. */
  readonly isSlowed: boolean;
  /**
   * With `send`: until when this worker certainly owns the attempt, by `performance.now()`. Counted from before the claim was
   * sent, so that a late answer or a pause of this process does not extend it.
   */
  readonly leaseEndsAt: number;
};

export type MessageClaimTerms = {
  /** Identifies this start of the process and no other; messages claimed under it belong to this process. */
  readonly worker: string;
  readonly leaseMs: number;
  /** Default `CLAIM_BYTES_MAX`. Messages beyond it are left for the next claim. */
  readonly bytesMax?: number;
};

/** Bound on the contents in one answer of a claim. Only contents from `COUNTED_BYTES_MIN` on count. */
export const CLAIM_BYTES_MAX = 768 * 1024;
