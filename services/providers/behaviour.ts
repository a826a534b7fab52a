/** The possible fates of a message in test mode and at a vendor's stand-in; the recipient address selects one. */
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

/** `+15550000001` selects the first behaviour, `…02` the second, and so on; any other recipient is delivered. */
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

export type PlannedReport = { readonly afterMs: number; readonly state: 'sent' | 'delivered' };

const SENT: PlannedReport = { afterMs: 50, state: 'sent' };
const DELIVERED: PlannedReport = { afterMs: 150, state: 'delivered' };

const ONCE = [SENT, DELIVERED];
/** `invalid` is refused at the call, so no report follows. */
const REPORTS: Readonly<Record<Behaviour, readonly PlannedReport[]>> = {
  delivered: ONCE,
  invalid: [],
  transient: ONCE,
  ambiguous: ONCE,
  repeated: [SENT, DELIVERED, { ...DELIVERED, afterMs: 250 }],
  reordered: [
    { ...DELIVERED, afterMs: 50 },
    { ...SENT, afterMs: 250 },
  ],
  silent: [],
};

/** Returns the reports that a stand-in sends for a message that it accepted, with their delays. */
export function plannedReports(behaviour: Behaviour): readonly PlannedReport[] {
  return REPORTS[behaviour];
}
