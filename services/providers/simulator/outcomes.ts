import type { SimulatedReceipt, Outcome } from '#core/domain/outcome.ts';

/** The behaviours a simulator can show; the recipient chooses one. */
export const BEHAVIOURS = [
  'delivered',
  'invalid',
  'transient',
  'ambiguous',
  'repeated',
  'reordered',
  'silent',
] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];

/** `+15550000001` is the first behaviour, `…02` the second, and so on; any other recipient is delivered. */
export function behaviourOfNumber(to: string): Behaviour {
  const position = /^\+155500000(0[1-7])$/.exec(to)?.[1];
  return (position === undefined ? undefined : BEHAVIOURS[Number(position) - 1]) ?? 'delivered';
}

export function behaviourOfAddress(to: string): Behaviour {
  const [local, domain] = to.toLowerCase().split('@');
  return domain === 'simulator.invalid' ? behaviourOfWord(local ?? '') : 'delivered';
}

export function behaviourOfWord(word: string): Behaviour {
  const lower = word.toLowerCase();
  return BEHAVIOURS.find((one) => one === lower) ?? 'delivered';
}

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

/** The outcome of one call; only `transient` looks at which call it is. */
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
