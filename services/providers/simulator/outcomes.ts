import type { SimulatedReceipt, Outcome } from '#core/domain/sending/outcome.ts';
import type { Behaviour } from '../behaviour.ts';

const RECEIPTS: Readonly<Record<Behaviour, readonly SimulatedReceipt[]>> = {
  delivered: [{ afterMs: 50, receipt: 'delivered' }],
  invalid: [],
  transient: [{ afterMs: 50, receipt: 'delivered' }],
  ambiguous: [],
  repeated: [
    { afterMs: 50, receipt: 'delivered' },
    { afterMs: 100, receipt: 'delivered' },
  ],
  reordered: [
    { afterMs: 50, receipt: 'delivered' },
    { afterMs: 150, receipt: 'sent' },
  ],
  silent: [],
};

/** Returns the outcome of one call; only `transient` depends on the attempt number. */
export function simulatedOutcome(behaviour: Behaviour, messageId: string, attempt: number): Outcome {
  if (behaviour === 'invalid') {
    return { kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code: 'unknown_recipient' } };
  }
  if (behaviour === 'transient' && attempt === 1) {
    return {
      kind: 'rejected_transient',
      failure: { class: 'provider_unavailable', code: 'http_503', httpStatus: 503 },
    };
  }
  if (behaviour === 'ambiguous') {
    return { kind: 'ambiguous', failure: { class: 'provider_unavailable', code: 'timeout' } };
  }
  return { kind: 'accepted', providerMessageId: `sim-${messageId}`, receipts: RECEIPTS[behaviour] };
}
