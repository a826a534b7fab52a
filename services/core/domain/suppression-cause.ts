import type { Channel } from './channel.ts';
import type { Engagement } from './engagement.ts';
import type { Failure } from './failure.ts';
import type { AttemptOutcome, ReceiptKind } from './outcome.ts';
import { scopeOf, type SuppressionReason, type SuppressionScope } from './suppression.ts';

/** What a provider says of a recipient that nothing should be sent to any more. */
export type SuppressionCause = Exclude<SuppressionReason, 'manual'>;

const OPTED_OUT = 'recipient_opted_out';
/** Codes of the class `invalid_recipient` that speak of the recipient alone: neither of the account nor of the moment. */
const HARD_BOUNCES: ReadonlySet<string> = new Set([
  'unknown_recipient',
  'unknown_domain',
  'invalid_address',
  'invalid_number',
  'unregistered',
  'bounced',
  'bounced_before',
]);

/** What a refused call says; null for nothing. */
export function causeOfRefusal(outcome: AttemptOutcome): SuppressionCause | null {
  return outcome.kind === 'rejected_permanent' ? causeOfFailure(outcome.failure) : null;
}

/** What a report on a message says; null for nothing. */
export function causeOfReport(report: {
  readonly receipt: ReceiptKind | null;
  readonly temporary: boolean;
  readonly failure: Failure | null;
  readonly engagement: Engagement | null;
}): SuppressionCause | null {
  if (report.engagement === 'complained') return 'complaint';
  if (report.engagement === 'unsubscribed') return 'unsubscribe';
  if (report.receipt !== 'undelivered' || report.temporary || report.failure === null) return null;
  return causeOfFailure(report.failure);
}

/**
 * The entry that follows. Who tells a carrier to stop gets nothing at all from the sender; who is on a mail vendor's list, or tells
 * WhatsApp to stop, wants no marketing.
 */
export function suppressionFor(
  cause: SuppressionCause,
  channel: Channel,
): { readonly reason: SuppressionCause; readonly scope: SuppressionScope } {
  const isOfMarketing = cause === 'opt_out' && (channel === 'email' || channel === 'whatsapp');
  const reason = isOfMarketing ? 'unsubscribe' : cause;
  return { reason, scope: scopeOf(reason) };
}

function causeOfFailure({ class: group, code }: Failure): SuppressionCause | null {
  if (code === OPTED_OUT) return 'opt_out';
  return group === 'invalid_recipient' && HARD_BOUNCES.has(code) ? 'hard_bounce' : null;
}
