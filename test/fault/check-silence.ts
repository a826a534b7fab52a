import { takenOf, type Case } from './case.ts';
import type { ProviderCall, TakenReceipt } from './ledger.ts';
import type { MessageRecord, Silence } from './records.ts';
import type { Violation } from './violations.ts';

/** Final states, in the providers' words. A report that the message is on its way does not prevent the failover. */
const ENDS: ReadonlySet<string> = new Set(['delivered', 'undelivered', 'failed']);
/** The stand-ins of the providers read their clock in whole milliseconds. */
const CLOCK_MS = 1;

/** Checks the receipt timeout failovers of a message, and that a message without a receipt did fail over. */
export function checkSilence(one: Case): Violation[] {
  const { id, silences } = one.record;
  const wrong = [...silences.flatMap((silence, i) => faultsOf(one, silence, i)), ...stuckOf(one)];
  const heard = silences.flatMap((silence) => heardInTime(one, silence));
  return [
    ...wrong.map((what): Violation => ({ name: 'silence', detail: `message ${id}: ${what}` })),
    ...heard.map((what): Violation => ({ name: 'heard', detail: `message ${id}: ${what}` })),
  ];
}

/** Tells whether the account that the message moved to was called at or after the time of the move. */
export function isCalledAfter(
  { to, at }: Silence,
  calls: readonly Pick<ProviderCall, 'account' | 'at'>[],
): boolean {
  return calls.some((call) => call.account === to && call.at + CLOCK_MS > at);
}

function faultsOf(one: Case, silence: Silence, nth: number): string[] {
  const { record, calls, wait } = one;
  const { guarantee, isPinned, duplicateRisk, tries, outcomes, silences } = record;
  const { from, to, at } = silence;
  if (wait === null) return ['it moved, and its route has no time'];
  const { timeoutMs } = wait;
  const ended = lastEnded(record, silence);
  const acceptedAt = tries[ended]?.endedAt ?? at;
  const following = silences[nth + 1];
  const next = tries.slice(ended + 1, following && lastEnded(record, following) + 1);
  const taken = takenOf(calls).filter((call) => call.at < at);
  const faults: readonly (readonly [isFound: boolean, what: string])[] = [
    [guarantee === 'at_most_once', 'it moved, and was to be called once at most'],
    [isPinned, 'it moved from the account that was named'],
    [!duplicateRisk, 'it moved without duplicateRisk'],
    [tries[ended]?.account !== from || outcomes[ended] !== 'accepted', `${from} had not accepted it`],
    [outcomes.slice(0, ended + 1).includes('ambiguous'), 'it moved after an attempt without an answer'],
    [taken.length !== nth + 1, `it moved after ${taken.length} calls that may have been taken`],
    [at < acceptedAt + timeoutMs, `it moved ${at - acceptedAt} ms after it was accepted`],
    [tries.slice(0, ended + 1).some(({ account }) => account === to), `it moved back to ${to}`],
    [next.some(({ account }) => account !== to), `it moved to ${to}, and another account was called`],
  ];
  return faults.flatMap(([isFound, what]) => (isFound ? [what] : []));
}

/** Reports a move although a final receipt was answered with a 2xx before the timeout, which begins when the call is recorded. */
function heardInTime({ record, receipts, wait }: Case, silence: Silence): string[] {
  const acceptedAt = record.tries[lastEnded(record, silence)]?.endedAt;
  if (wait === null || acceptedAt == null) return [];
  const inTime = receipts.find(
    (receipt) => isEndOf(receipt, silence.from) && receipt.at + CLOCK_MS <= acceptedAt + wait.timeoutMs,
  );
  if (inTime === undefined) return [];
  return [`it moved at ${silence.at}, and ${silence.from} had reported in time, at ${inTime.at}`];
}

function lastEnded({ tries }: MessageRecord, { at }: Silence): number {
  return tries.findLastIndex(({ endedAt }) => endedAt !== null && endedAt <= at);
}

function isEndOf({ account, state }: TakenReceipt, from: string): boolean {
  return account === from && ENDS.has(state);
}

/** Reports a message that had no receipt and was allowed to go out twice, but did not fail over. */
function stuckOf({ record, receipts, wait }: Case): string[] {
  const { status, guarantee, isPinned, silences, tries, outcomes } = record;
  const [only] = tries;
  if (wait === null || status !== 'sent' || silences.length > 0 || tries.length !== 1) return [];
  if (guarantee !== 'at_least_once' || isPinned || outcomes[0] !== 'accepted') return [];
  // The channel of this account has no route with a receipt timeout.
  if (only === undefined || only.account === '' || only.endedAt === null) return [];
  if (receipts.some(({ state }) => ENDS.has(state)) || only.endedAt + wait.timeoutMs > wait.decidedBy)
    return [];
  return [`nothing was heard of it from ${only.account}, and no other account was to send it`];
}
