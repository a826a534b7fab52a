import type { Arrival } from '../processes/provider-process.ts';
import type { EventArrival } from '../processes/receiver-process.ts';

/** Accepted and not found at the other end, or found twice: always nothing, else the figures mean nothing. */
export type Ledger = { readonly lost: number; readonly repeated: number };

/** Accepted messages have the numbers that the provider saw, unless one was refused. */
export function ledgerOf(accepted: number, arrivals: readonly Arrival[]): Ledger {
  const distinct = new Set(arrivals.map(([n]) => n)).size;
  return { lost: Math.max(0, accepted - distinct), repeated: arrivals.length - distinct };
}

/** So many events were to be told, each once to each of its endpoints. */
export function eventLedger(due: number, arrivals: readonly EventArrival[]): Ledger {
  const distinct = new Set(arrivals.map(({ path, seq }) => `${path} ${seq}`)).size;
  return { lost: Math.max(0, due - distinct), repeated: arrivals.length - distinct };
}

/** Of a contestant whose worker is stopped. A connection that broke may have stored a message without an answer. */
export function storedLedger(accepted: number, stored: number, broken: number): Ledger {
  return { lost: Math.max(0, accepted - stored), repeated: Math.max(0, stored - accepted - broken) };
}

export function sumLedgers(ledgers: readonly Ledger[]): Ledger {
  return ledgers.reduce((a, b) => ({ lost: a.lost + b.lost, repeated: a.repeated + b.repeated }), {
    lost: 0,
    repeated: 0,
  });
}
