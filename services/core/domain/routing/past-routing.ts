import type { FailureClass } from '../sending/failure.ts';
import type { SkippedAccount, SkippedReason } from './skipped-account.ts';

/** What happened to a message at an account that did not keep it. */
export type PastTurn = { readonly accountId: string } & (
  | {
      readonly kind: 'refused';
      readonly isPermanent: boolean;
      readonly class: FailureClass;
      /** Accounts that could not be called either. */
      readonly skipped?: readonly SkippedAccount[] | null;
    }
  /** A call ended without an answer. */
  | { readonly kind: 'unanswered' }
  /** The message waited too long, and the skipped accounts could not be called either. */
  | {
      readonly kind: 'delayed';
      readonly why: Exclude<SkippedReason, 'disabled'>;
      readonly skipped: readonly SkippedAccount[];
    }
  /** The account accepted the message, and no receipt came in time. */
  | { readonly kind: 'silent'; readonly skipped: readonly SkippedAccount[] }
);

/** The stored facts about how a message found its account; its sender named none. */
export type PastRouting = {
  readonly id: string;
  readonly channel: string;
  /** In chronological order. */
  readonly turns: readonly PastTurn[];
  /**
   * Set if the message is `sent`, or has ended, through the account `to`, which had not reported in time: `from`, for which it
   * waited since, has not accepted it.
   */
  readonly cameBack?: { readonly to: string; readonly from: string } | undefined;
};
