import { canMove, type MessageState } from '#core/domain/message/message-state.ts';
import { takenOf, type Case } from './case.ts';
import { checkSilence, isCalledAfter } from './check-silence.ts';
import { REFUSALS } from './ledger.ts';
import type { Violation, ViolationName } from './violations.ts';

/** Second calls, counted by what explains them. */
export type Repeats = {
  readonly duplicateRisk: number;
  /** Calls of another account after a receipt timeout. */
  readonly silent: number;
  readonly askedFor: number;
  readonly unexplained: number;
};

const ENDS: ReadonlySet<string> = new Set(['sent', 'delivered', 'undelivered', 'unknown']);
/** The reason that the load gives its suppressions. */
const SUPPRESSED_FOR = 'manual';
/** The client reads its clock in whole milliseconds. */
const CLIENT_CLOCK_MS = 1;
const CHECKS = [
  checkPromises,
  checkOutcome,
  checkCancel,
  checkSuppression,
  checkFailover,
  checkSilence,
  checkInstant,
  checkCalls,
  checkReceipts,
  checkHistory,
  checkFeed,
  checkShown,
];

/** Checks every guarantee that concerns one message alone. */
export function checkRecord(one: Case): Violation[] {
  return CHECKS.flatMap((check) => check(one));
}

/** Counts the second calls of a message by what explains them. */
export function repeatsOf({ record, calls }: Case): Repeats {
  const extra = Math.max(0, calls.length - 1);
  const silent = record.silences.filter((silence) => isCalledAfter(silence, calls)).length;
  const none = { duplicateRisk: 0, silent, askedFor: 0, unexplained: 0 };
  if (takenOf(calls).length <= 1) return { ...none, askedFor: extra };
  return record.duplicateRisk ? { ...none, duplicateRisk: extra } : { ...none, unexplained: extra };
}

function found(name: ViolationName, isFound: boolean, detail: string): Violation[] {
  return isFound ? [{ name, detail }] : [];
}

function checkPromises({ record: { id, token }, promises }: Case): Violation[] {
  const other = promises.find((promise) => promise.id !== id);
  return found('idempotency', other !== undefined, `${token} is ${id}, answered with ${other?.id}`);
}

function checkOutcome({ record, cancels, suppressions }: Case): Violation[] {
  const { id, status, reason, failure, isTimed } = record;
  const isWished =
    (status === 'canceled' && cancels.length > 0) ||
    (status === 'suppressed' && suppressions.length > 0 && reason === SUPPRESSED_FOR);
  const why = failure === null ? (reason ?? 'no reason') : `${failure.class} ${failure.code}`;
  const name = status === 'failed' || status === 'expired' ? 'failed' : 'lost';
  return found(name, !ENDS.has(status) && !isTimed && !isWished, `message ${id} is ${status} (${why})`);
}

function firstHeard(wishes: readonly { readonly at: number | null }[]): number | undefined {
  return wishes.flatMap(({ at }) => (at === null ? [] : [at])).toSorted((a, b) => a - b)[0];
}

/**
 * A call of a lost worker can arrive at any later time; its attempt is then ambiguous, so each ambiguous attempt excuses one late
 * call.
 */
function checkCancel({ record: { id, status, outcomes }, cancels, calls }: Case): Violation[] {
  const heard = firstHeard(cancels);
  if (heard === undefined) return [];
  const lost = outcomes.filter((outcome) => outcome === 'ambiguous').length;
  const late = calls.filter(({ at }) => at > heard);
  return [
    ...found('canceled', status !== 'canceled', `message ${id} was canceled, and is ${status}`),
    ...found(
      'canceled',
      late.length > lost,
      `message ${id} was canceled at ${new Date(heard).toISOString()} and called ${late.length} times after`,
    ),
  ];
}

/** Attempts that began before the suppression may still call. The database and the client read the clock of the same machine. */
function checkSuppression({ record: { id, begunAt }, suppressions }: Case): Violation[] {
  const heard = firstHeard(suppressions);
  const isLate = heard !== undefined && begunAt !== null && begunAt >= heard + CLIENT_CLOCK_MS;
  return found(
    'suppressed',
    isLate,
    `message ${id}: its recipient was suppressed at ${heard}, and an attempt began at ${begunAt}`,
  );
}

/**
 * After a call that may have been accepted, only a recorded receipt timeout allows another account. A message with a named
 * account never changes it.
 */
function checkFailover({ record: { id, silences }, promises, calls }: Case): Violation[] {
  const pinned = promises.find((promise) => promise.pinned !== null)?.pinned ?? null;
  const wrong = calls.find(({ account, at }, i) => {
    const last = calls.slice(0, i).findLast(({ answer }) => !REFUSALS.has(answer));
    if (pinned !== null && account !== pinned) return true;
    if (last === undefined || last.account === account) return false;
    return !silences.some(
      (silence) => silence.from === last.account && isCalledAfter(silence, [{ account, at }]),
    );
  });
  return found(
    'failover',
    wrong !== undefined,
    `message ${id}: ${calls.map(({ account, answer }) => `${account} ${answer}`).join(', ')}`,
  );
}

/** The provider's clock and the client's are comparable: both are processes of the suite, and no fault moves their clocks. */
function checkInstant({ record: { id }, promises, calls }: Case): Violation[] {
  const sendAt = promises.find((promise) => promise.sendAt !== null)?.sendAt ?? null;
  const early = sendAt === null ? undefined : calls.find(({ at }) => at < sendAt);
  return found(
    'instant',
    early !== undefined,
    `message ${id} was to be sent at ${sendAt}, and was called at ${early?.at}`,
  );
}

function checkCalls(one: Case): Violation[] {
  const { record, calls } = one;
  const { id, status, duplicateRisk, guarantee, attempts, outcomes, events } = record;
  const started = outcomes.filter((outcome) => outcome !== 'not_started').length;
  const taken = takenOf(calls).length;
  const how = calls.map(({ worker, answer, at }) => `${worker} ${answer} ${new Date(at).toISOString()}`);
  // A late answer of the provider proves a call that was recorded as ambiguous; it arrives as a receipt, as a report does.
  const isProven = events.includes('sent') || events.includes('delivered');
  const isSettled = duplicateRisk || status === 'unknown' || isProven || !ENDS.has(status);
  return [
    ...found(
      'unrecorded',
      calls.length > started,
      `message ${id}: ${calls.length} calls, ${started} attempts`,
    ),
    ...found(
      'duplicate',
      repeatsOf(one).unexplained > 0,
      `message ${id} (${status}, attempts ${attempts.join()}): ${how.join('; ')}`,
    ),
    ...found(
      'at_most_once',
      guarantee === 'at_most_once' && taken > 1,
      `message ${id} was called ${taken} times`,
    ),
    ...found('ambiguous', outcomes.at(-1) === 'ambiguous' && !isSettled, `message ${id} is ${status}`),
    ...found('answers', status === 'sent' && taken === 0, `message ${id} is sent, and nobody was called`),
  ];
}

/**
 * Repeated reports count as one receipt. After a single call, the message's state must agree with its reports. Where another
 * account sent it too after a receipt timeout, a report of delivery from either account counts.
 */
function checkReceipts({
  record: { id, status, attempts, silences, receipts: known },
  receipts,
}: Case): Violation[] {
  const states = new Set(receipts.map(({ state }) => state));
  const isWaiting = status === 'sent' || status === 'unknown';
  const isPlain = attempts.length === 1 || silences.length > 0;
  const isPassedOver = states.has('delivered') && isPlain && isWaiting;
  return found(
    'receipts',
    known < states.size || isPassedOver,
    `message ${id} is ${status}, with ${known} receipts of ${[...states].join()}`,
  );
}

function checkHistory({
  record: { id, attempts, outcomes, tries, events, status, isScheduled },
}: Case): Violation[] {
  const isContiguous = attempts.every((number, i) => number === i + 1);
  const isOpen = outcomes.includes('started') && status !== 'sending';
  const last = events.filter((event) => event !== 'released').at(-1);
  const overlap = tries.findIndex(({ startedAt }, i) => (startedAt ?? 0) < (tries[i - 1]?.endedAt ?? 0));
  const isOther = last !== undefined && last !== status && ENDS.has(status);
  return [
    ...found('attempts', !isContiguous || isOpen, `message ${id}: ${attempts.join()} ${outcomes.join()}`),
    ...found(
      'attempts',
      overlap !== -1,
      `message ${id}: two attempts are open at once, ${JSON.stringify(tries)}`,
    ),
    ...found('moves', !isHistory(events, isScheduled), `message ${id}: ${events.join(' ')}`),
    ...found('moves', isOther, `message ${id} is ${status}, its last event ${last}`),
  ];
}

function checkFeed({ record: { id, told, fed } }: Case): Violation[] {
  return found(
    'feed',
    told.join() !== fed.join(),
    `message ${id}: events ${told.join()}, in the feed ${fed.join()}`,
  );
}

function checkShown({ record: { id, status, attempts, duplicateRisk, silences }, shown }: Case): Violation[] {
  if (shown === undefined) return [];
  const left = shown.route.flatMap(({ providerId, reason }) =>
    reason === 'receipt_timeout' ? [providerId] : [],
  );
  const isTrue =
    left.join() === silences.map(({ fromId }) => fromId).join() &&
    shown.status === status &&
    shown.attemptCount === attempts.length &&
    shown.duplicateRisk === duplicateRisk;
  return found('answers', !isTrue, `message ${id} is shown as ${JSON.stringify(shown)}, and is ${status}`);
}

/** A message that failed over waits in the queue for the next account. */
function stateAfter(event: string): MessageState {
  if (event === 'silent') return 'queued';
  return event === 'failed_over' ? 'deferred' : (event as MessageState);
}

/**
 * Tells whether the events are a valid sequence of states; `queued` and `sending` produce no events and may lie between any two.
 */
function isHistory(events: readonly string[], isScheduled: boolean): boolean {
  let state: MessageState = isScheduled ? 'scheduled' : 'queued';
  let heldFrom: MessageState = 'queued';
  for (const event of events) {
    if (event === 'held') heldFrom = state === 'scheduled' ? 'scheduled' : 'queued';
    const next: MessageState = event === 'released' ? heldFrom : stateAfter(event);
    if (event === 'silent' && state !== 'sent') return false;
    const isDirect = event === 'released' || canMove(state, next);
    const isByAttempt = canMove(state, 'sending') && canMove('sending', next);
    if (!isDirect && !isByAttempt) return false;
    state = next;
  }
  return true;
}
