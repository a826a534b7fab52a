import type { Arrival } from '../processes/provider-process.ts';
import type { EventArrival } from '../processes/receiver-process.ts';

/** Messages that were accepted and did not arrive, or arrived twice. Both must be zero, else the figures mean nothing. */
export type Ledger = { readonly lost: number; readonly repeated: number };

/** Compares the number of accepted messages with the distinct message numbers that the provider saw. */
export function ledgerOf(accepted: number, arrivals: readonly Arrival[]): Ledger {
  const distinct = new Set(arrivals.map(([n]) => n)).size;
  return { lost: Math.max(0, accepted - distinct), repeated: arrivals.length - distinct };
}

/** Compares the number of due events with those that arrived, each once per endpoint. */
export function eventLedger(due: number, arrivals: readonly EventArrival[]): Ledger {
  const distinct = new Set(arrivals.map(({ path, seq }) => `${path} ${seq}`)).size;
  return { lost: Math.max(0, due - distinct), repeated: arrivals.length - distinct };
}

/** For a contestant whose worker is stopped. A broken connection may have stored a message without an answer. */
export function storedLedger(accepted: number, stored: number, broken: number): Ledger {
  return { lost: Math.max(0, accepted - stored), repeated: Math.max(0, stored - accepted - broken) };
}

export function sumLedgers(ledgers: readonly Ledger[]): Ledger {
  return ledgers.reduce((a, b) => ({ lost: a.lost + b.lost, repeated: a.repeated + b.repeated }), {
    lost: 0,
    repeated: 0,
  });
}
