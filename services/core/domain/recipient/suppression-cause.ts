import type { Channel } from '../message/channel.ts';
import type { Engagement } from '../receipts/engagement.ts';
import type { Failure } from '../sending/failure.ts';
import type { AttemptOutcome, ReceiptKind } from '../sending/outcome.ts';
import { scopeOf, type SuppressionReason, type SuppressionScope } from './suppression.ts';

/** Why a provider's answer or report suppresses a recipient. */
export type SuppressionCause = Exclude<SuppressionReason, 'manual'>;

const OPTED_OUT = 'recipient_opted_out';
/**
 * Codes of the class `invalid_recipient` that concern only the recipient, neither the account nor a temporary condition. The guide
 * to own gateways lists them.
 */
export const HARD_BOUNCES: ReadonlySet<string> = new Set([
  'unknown_recipient',
  'unknown_domain',
  'invalid_address',
  'invalid_number',
  'unregistered',
  'bounced',
  'bounced_before',
]);

/** Returns the cause in a refused call; null if there is none. */
export function causeOfRefusal(outcome: AttemptOutcome): SuppressionCause | null {
  return outcome.kind === 'rejected_permanent' ? causeOfFailure(outcome.failure) : null;
}

/** Returns the cause in a report on a message; null if there is none. */
export function causeOfReport(report: {
  readonly receipt: ReceiptKind | null;
  readonly temporary: boolean;
  readonly failure: Failure | null;
  readonly engagement: Engagement | null;
}): SuppressionCause | null {
  if (report.engagement === 'complained') return 'complaint';
  if (report.engagement === 'unsubscribed') return 'unsubscribe';
  if (report.receipt !== 'undelivered' || report.temporary) return null;
  return causeOfFailure(report.failure);
}

/**
 * Returns the entry for a cause. A recipient who opts out at a carrier gets nothing at all from the sender; one who is on a mail
 * vendor's list, or opts out at WhatsApp, gets no marketing.
 */
export function suppressionFor(
  cause: SuppressionCause,
  channel: Channel,
): { readonly reason: SuppressionCause; readonly scope: SuppressionScope } {
  const isOfMarketing = cause === 'opt_out' && (channel === 'email' || channel === 'whatsapp');
  const reason = isOfMarketing ? 'unsubscribe' : cause;
  return { reason, scope: scopeOf(reason) };
}

/** Whether a failure says that the recipient does not exist. */
export function isHardBounce(failure: Failure | null): boolean {
  return causeOfFailure(failure) === 'hard_bounce';
}

/** Returns the cause that a failure names; null if it names none. */
export function causeOfFailure(failure: Failure | null): 'opt_out' | 'hard_bounce' | null {
  if (failure === null) return null;
  const { class: group, code } = failure;
  if (code === OPTED_OUT) return 'opt_out';
  return group === 'invalid_recipient' && HARD_BOUNCES.has(code) ? 'hard_bounce' : null;
}
