import type { Channel } from '#core/domain/message/channel.ts';
import type { LeftReason } from '#core/domain/routing/skipped-account.ts';
import { ADAPTER_FAULT, FAILURE_CLASSES, type FailureClass } from '#core/domain/sending/failure.ts';

/** The outcomes of an attempt; a test keeps them equal to those of the domain. */
export const METRIC_OUTCOMES = [
  'accepted',
  'rejected_permanent',
  'rejected_transient',
  'ambiguous',
  'not_started',
] as const;

/**
 * Why a message was given up. A failure class names the cause; `no_answer`: the last call got no answer, so the result is
 * unknown; `worker_lost` and `adapter_fault` are Despatch's own faults.
 */
export const GIVEN_UP_REASONS = [...FAILURE_CLASSES, 'no_answer', 'worker_lost', ADAPTER_FAULT] as const;
export type GivenUpReason = (typeof GIVEN_UP_REASONS)[number];

/** How the wait for a message's result ended: a report arrived, a lookup found it, or neither happened before the wait ended. */
export const AWAITED_OUTCOMES = ['heard', 'asked', 'silent'] as const;
export type AwaitedOutcome = (typeof AWAITED_OUTCOMES)[number];

/**
 * Results of receipts. `applied`: it changed the message; `unapplied`: it contained nothing new, or nothing credible any more;
 * `repeated`; `orphan`: it matches no message; `full`: it matches no message yet, and too many receipts of its account are
 * waiting; `forged`: not authentic; `unreadable`: not in the vendor's format.
 * `asked`: any answer to a lookup; all others are reports that the vendor sent by itself.
 */
export const RECEIPT_RESULTS = [
  'applied',
  'unapplied',
  'repeated',
  'orphan',
  'full',
  'asked',
  'forged',
  'unreadable',
] as const;
export type MetricReceiptResult = (typeof RECEIPT_RESULTS)[number];

/**
 * Results of lookups. `final`: the message's outcome; `pending`: it is still under way, or the provider does not tell;
 * `not_found`: the provider does not know it; `unanswerable`: it cannot be looked up; `forbidden`: the account's key may not look
 * it up; `unanswered`: no answer.
 */
export const LOOKUP_RESULTS = [
  'final',
  'pending',
  'not_found',
  'unanswerable',
  'forbidden',
  'unanswered',
] as const;
export type LookupOutcome = (typeof LOOKUP_RESULTS)[number];

/** Results of a call to a webhook endpoint; `exhausted`: the last call for its event failed. */
export const WEBHOOK_RESULTS = ['succeeded', 'failed', 'exhausted'] as const;
export type WebhookResult = (typeof WEBHOOK_RESULTS)[number];

/** The labels of a message's move from one account to another. */
export type FailoverLabels = {
  readonly channel: Channel;
  /** Provider of the account that the message leaves, an id of the catalog. */
  readonly provider: string;
  /** Provider of the next account; `unknown` if that account can no longer be used. */
  readonly to: string;
  /** The failure of the call; a receipt timeout; or why the account was not called. */
  readonly because: FailureClass | 'receipt_timeout' | LeftReason;
};
