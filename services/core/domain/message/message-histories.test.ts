import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyReport, type ReportedMessage } from '../receipts/apply-report.ts';
import { decideCancel } from '../sending/decide-cancel.ts';
import { decideSilence, type SilentMessage } from '../receipts/decide-silence.ts';
import { decideWaiting, type WaitingMessage } from '../sending/decide-waiting.ts';
import type { FailedTry, FailoverFacts } from '../routing/failover.ts';
import { canMove, isWaiting, LIVE_STATES, type MessageState } from './message-state.ts';
import type { AttemptOutcome, ReceiptKind } from '../sending/outcome.ts';
import {
  FAILOVER_DEFAULT,
  orderOf,
  ROUTE_STRATEGIES,
  type Route,
  type RouteStrategy,
} from '../routing/route.ts';
import { decideReschedule } from './schedule.ts';
import { settle } from '../sending/settle.ts';

/**
 * Random histories of one message through the functions that decide about it. The results are compared with a model that does not
 * use these functions: it has only the facts of the history, and derives from them what may happen and what must.
 */
const ACCOUNTS = ['first', 'second', 'third'] as const;
type AccountId = (typeof ACCOUNTS)[number];
const BEGIN = 1_800_000_000_000;
const LIFETIME_MS = 3_600_000;

type Terms = {
  readonly guarantee: 'at_least_once' | 'at_most_once';
  readonly dedupe: 'none' | 'key' | 'lookup';
  readonly pinned: boolean;
  readonly receipts: boolean;
  readonly strategy: RouteStrategy;
  /** Number of accounts in the route. */
  readonly steps: number;
  /** Whether the route sends a message through another account if no receipt came. */
  readonly goesOn: boolean;
  /** Time from acceptance to the send time, in milliseconds. */
  readonly afterMs: number;
};
/** `unwanted`: refused permanently, by this account only. */
type End =
  | 'accepted'
  | 'refused'
  | 'unwanted'
  | 'busy'
  | 'throttled'
  | 'unauthorized'
  | 'ambiguous'
  | 'not_started';
type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'look' | 'cancel' | 'suspend' | 'resume' | 'silence' | 'late' }
  | { readonly kind: 'suppress'; readonly on: boolean }
  | { readonly kind: 'disable'; readonly on: boolean; readonly account: AccountId }
  | { readonly kind: 'reschedule'; readonly afterMs: number }
  /** `attempt`: an attempt is made as soon as it is allowed. */
  | { readonly kind: 'end' | 'attempt'; readonly how: End; readonly random: number }
  | {
      readonly kind: 'report';
      readonly state: ReceiptKind;
      readonly temporary: boolean;
      readonly of: number;
    };

const terms: fc.Arbitrary<Terms> = fc.record({
  guarantee: fc.constantFrom('at_least_once', 'at_most_once'),
  dedupe: fc.constantFrom('none', 'none', 'key', 'lookup'),
  pinned: fc.boolean(),
  receipts: fc.boolean(),
  goesOn: fc.boolean(),
  strategy: fc.constantFrom(...ROUTE_STRATEGIES),
  steps: fc.integer({ min: 1, max: ACCOUNTS.length }),
  afterMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(LIFETIME_MS)),
});
const end = fc.record({
  kind: fc.constantFrom('end', 'attempt', 'attempt', 'attempt'),
  how: fc.constantFrom<End[]>(
    'accepted',
    'accepted',
    'accepted',
    'refused',
    'unwanted',
    'unwanted',
    'busy',
    'busy',
    'busy',
    'throttled',
    'unauthorized',
    'ambiguous',
    'ambiguous',
    'ambiguous',
    'not_started',
  ),
  random: fc.double({ min: 0, max: 0.999, noNaN: true }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.oneof(fc.nat(5_000), fc.nat(600_000), fc.constant(LIFETIME_MS)),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: 'look' as const }) },
  { weight: 3, arbitrary: fc.constant({ kind: 'late' as const }) },
  { weight: 6, arbitrary: end },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('cancel', 'suspend', 'resume', 'resume', 'silence') }),
  },
  {
    weight: 1,
    arbitrary: fc.oneof(
      fc.record({ kind: fc.constant('suppress' as const), on: fc.boolean() }),
      fc.record({
        kind: fc.constant('disable' as const),
        on: fc.boolean(),
        account: fc.constantFrom(...ACCOUNTS),
      }),
      fc.record({ kind: fc.constant('reschedule' as const), afterMs: fc.nat(2 * LIFETIME_MS) }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('report' as const),
      state: fc.constantFrom<ReceiptKind[]>('sent', 'delivered', 'undelivered'),
      temporary: fc.boolean(),
      of: fc.nat(3),
    }),
  },
);

const OUTCOMES: Readonly<Record<End, AttemptOutcome>> = {
  accepted: { kind: 'accepted', providerMessageId: 'p' },
  refused: { kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code: 'unknown_recipient' } },
  unwanted: { kind: 'rejected_permanent', failure: { class: 'sender_rejected', code: 'sender_rejected' } },
  busy: { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'http_503' } },
  throttled: { kind: 'rejected_transient', failure: { class: 'provider_throttled', code: 'http_429' } },
  unauthorized: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: 'http_401' } },
  ambiguous: { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } },
  not_started: { kind: 'not_started', reason: 'shutdown' },
};

/** Ends after which another account may be called, unless the route excludes it. */
const GOES_ON: readonly (End | undefined)[] = ['unwanted', 'busy', 'unauthorized'];
const RECEIPT_WAIT_MS = 60_000;
/** States in which receipts do not count. */
const DEAF: readonly MessageState[] = ['canceled', 'failed', 'expired', 'suppressed'];
const LIMITS = { scheduleHorizonDays: 30 };
const PURGE_ON = '2028-01-03';

/** Creates the message as the database would store it; the decisions move it. */
function createWorld(of: Terms) {
  const { guarantee, dedupe, pinned, receipts, goesOn, strategy, steps: size, afterMs } = of;
  const steps = ACCOUNTS.slice(0, size).map((id, i) => ({ accountId: id, weight: i + 1 }));
  const route: Route = {
    channel: 'sms',
    version: 1,
    strategy,
    steps,
    failoverOn: FAILOVER_DEFAULT,
    receiptTimeoutMs: goesOn ? RECEIPT_WAIT_MS : null,
  };
  const order = [...orderOf(route, 'm')];
  let now = BEGIN;
  let status: MessageState = afterMs === 0 ? 'queued' : 'scheduled';
  let sendAt = BEGIN + afterMs;
  let accountId: string = order[0] ?? '';
  let isActive = true;
  let isSuppressed = false;
  const disabled = new Set<string>();
  let held: { at: number; from: MessageState } | undefined;
  let expiresAt = sendAt + LIFETIME_MS;
  let nextAttemptAt = sendAt;
  let counts = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
  /** The accepted call after which the message moved to another account, and whether the message returned to it in the end. */
  let sentBefore: { readonly account: string; readonly attempt: number } | undefined;
  let isReturned = false;
  let isByCall = false;
  let known: Omit<ReportedMessage, 'status' | 'attempt'> = {
    final: false,
    failure: null,
    segmentCount: 1,
    copies: {},
    partial: false,
    lateBounce: false,
    engagement: {},
  };

  // The history as an outside observer would record it. The model reads nothing else.
  const calls: { account: string; at: number; end?: End }[] = [];
  /** Accounts called since the message last waited for one of them, with the end of each call. */
  let round = new Map<string, End>();
  const copies = new Map<number, 'delivered' | 'failing' | 'undelivered'>();

  const usable = () => ACCOUNTS.filter((id) => !disabled.has(id));
  const accounts = () => usable().map((id) => ({ id, channel: 'sms', status: 'active' }));
  const refusedBy = () =>
    new Set(
      calls.flatMap(({ account, end: how }) => (how === 'unwanted' || how === 'accepted' ? [account] : [])),
    );
  const isBound = () => pinned || calls.some((call) => call.end === 'ambiguous');
  const isLive = () => (LIVE_STATES as readonly MessageState[]).includes(status);

  function move(to: MessageState): void {
    expect(canMove(status, to), `${status} -> ${to}`).toBe(true);
    status = to;
  }

  /** A message that was accepted once returns to sent where any other message would end. */
  const endOf = (state: MessageState): MessageState => (wasAccepted() ? 'sent' : state);
  /** Receipts of a call that got no answer still count where no other call follows. */
  const endOfWaiting = (state: MessageState): MessageState =>
    endOf(calls.some((call) => call.end === 'ambiguous') ? 'unknown' : state);
  const wasAccepted = () => calls.some((call) => call.end === 'accepted');

  /** Returns the state that a look must lead to, derived from the facts alone. */
  function expectedOfLook(): MessageState {
    if (status !== 'queued' && status !== 'deferred' && status !== 'scheduled') return status;
    if (!isActive) return 'held';
    if (now >= expiresAt) return endOfWaiting('expired');
    if (now < nextAttemptAt) return status;
    if (status === 'scheduled') return 'queued';
    if (isSuppressed) return endOfWaiting('suppressed');
    if (!disabled.has(accountId)) return 'sending';
    const isLeft = order.some((id) => !disabled.has(id) && !refusedBy().has(id));
    return isBound() || !isLeft ? endOfWaiting('failed') : 'sending';
  }

  function look(): void {
    const expected = expectedOfLook();
    for (let turn = 0; turn < 2; turn++) {
      const waiting: WaitingMessage = {
        id: 'm',
        status,
        tenantStatus: isActive ? 'active' : 'suspended',
        channel: 'sms',
        test: false,
        accountId,
        accountStatus: disabled.has(accountId) ? 'disabled' : 'active',
        pinned,
        refusedBy: [...refusedBy()],
        ambiguous: counts.ambiguous,
        isSent: sentBefore !== undefined,
        waitedMs: Math.max(0, now - nextAttemptAt),
        leftForRate: [],
        brake: null,
        isDue: now >= nextAttemptAt,
        isExpired: now >= expiresAt,
        isLeaseOver: false,
        suppression: isSuppressed ? 'manual' : null,
      };
      const decision = decideWaiting(waiting, accounts(), [route]);
      if (decision.kind === 'assign') {
        accountId = decision.rerouted.accountId;
        continue;
      }
      if (decision.kind === 'move') {
        if (decision.status === 'held') held = { at: now, from: status };
        move(decision.status);
      }
      if (decision.kind === 'return') comeBack();
      if (decision.kind === 'lane') {
        move('sending');
        calls.push({ account: accountId, at: now });
      }
      break;
    }
    expect(status).toBe(expected);
    if (expected === 'sending') checkCalls();
  }

  /** Returns the message to sent by the accepted call, because no other account sends it. */
  function comeBack(): void {
    move('sent');
    accountId = sentBefore?.account ?? '';
    isReturned = true;
    isByCall = false;
  }

  /** No receipt came within the route's timeout, if the route has one. */
  function late(): void {
    const silent: SilentMessage = {
      id: 'm',
      channel: 'sms',
      tenantStatus: isActive ? 'active' : 'suspended',
      isHeld: false,
      status: isLive() ? null : status,
      final: known.final,
      test: false,
      pinned,
      deliveryGuarantee: guarantee,
      discard: false,
      hasContent: true,
      accountId,
      isByCall,
      isTold: Object.keys(known.copies).length > 0,
      isAwaited: receipts,
      isExpired: now >= expiresAt,
      isBusy: false,
      isBehind: false,
      silentMs: RECEIPT_WAIT_MS,
      tried: calls.map(({ account }) => account),
      ambiguous: calls.filter(({ end: how }) => how === 'ambiguous').length,
    };
    const decision = decideSilence(silent, accounts(), [route]);
    const called = new Set(calls.map(({ account }) => account));
    const next = order.find((id) => !called.has(id) && !disabled.has(id));
    const mayGoOn =
      goesOn &&
      isActive &&
      receipts &&
      !isBound() &&
      guarantee === 'at_least_once' &&
      now < expiresAt &&
      status === 'sent' &&
      calls.at(-1)?.end === 'accepted' &&
      // A receipt that proved the acceptance during the wait for the next call ended the failover for good.
      isByCall &&
      copies.size === 0;
    expect(decision.kind === 'move').toBe(mayGoOn && next !== undefined);
    if (decision.kind !== 'move') return;
    expect(decision.rerouted.accountId).toBe(next);
    sentBefore = { account: accountId, attempt: calls.length };
    ({ accountId } = decision.rerouted);
    move('queued');
    nextAttemptAt = now;
    counts = { ...counts, retries: 0, providerWaits: 0, duplicateRisk: true };
    round = new Map();
    isReturned = false;
  }

  /** Checks the invariants of the calls, which hold after any history. */
  function checkCalls(): void {
    const open = calls.filter((call) => call.end === undefined);
    expect(open.length).toBeLessThanOrEqual(1);
    const ambiguousAt = calls.findIndex((call) => call.end === 'ambiguous');
    if (ambiguousAt !== -1) {
      const after = calls.slice(ambiguousAt);
      expect(
        new Set(after.map(({ account }) => account)).size,
        'no other account after an ambiguous call',
      ).toBe(1);
      if (dedupe === 'none') {
        expect(guarantee).toBe('at_least_once');
        expect(calls.filter((call) => call.end === 'ambiguous').length).toBeLessThanOrEqual(1);
      }
    }
    expect(
      calls.every(({ at }) => at >= sendAt),
      'no call before its instant',
    ).toBe(true);
    if (pinned) expect(new Set(calls.map(({ account }) => account)).size).toBe(1);
    expect(calls.some(({ end: how }) => how === 'refused')).toBe(false);
    const takers = calls.flatMap(({ account, end: how }) => (how === 'accepted' ? [account] : []));
    expect(takers.length === 0 || (goesOn && receipts && guarantee === 'at_least_once')).toBe(true);
    expect(takers, 'who has accepted it is not called again').not.toContain(calls.at(-1)?.account);
  }

  function endCall(how: End, random: number): void {
    const call = calls.at(-1);
    if (status !== 'sending' || call === undefined) return;
    const failover = pinned || counts.ambiguous > 0 ? undefined : failoverFacts();
    const attempted = {
      ...counts,
      deliveryGuarantee: guarantee,
      expiresAt,
      dedupe,
      receiptsExpected: receipts,
      sentBy: sentBefore?.account,
      failover,
    };
    const wasBound = isBound();
    const settled = settle(OUTCOMES[how], attempted, now, random);
    // A call that was never begun does not count as a call.
    if (how === 'not_started') calls.pop();
    else call.end = how;
    const before = counts;
    counts = {
      retries: settled.retries,
      ambiguous: settled.ambiguous,
      providerWaits: settled.providerWaits,
      duplicateRisk: settled.duplicateRisk,
    };
    if (settled.returned) comeBack();
    else move(settled.status);
    isByCall = how === 'accepted';
    const reached: MessageState = settled.status;
    nextAttemptAt = settled.nextAttemptAt ?? nextAttemptAt;
    const elsewhere = wasBound || !GOES_ON.includes(how) ? undefined : untried(call.account, how);
    checkAccount(settled.returned ? undefined : settled.rerouted?.accountId, elsewhere);
    expect(counts.retries - before.retries).toBe(usesRetry(how, reached, elsewhere) ? 1 : 0);
    expect(counts.ambiguous).toBe(calls.filter((one) => one.end === 'ambiguous').length);
    expect(counts.duplicateRisk).toBe(
      before.duplicateRisk ||
        sentBefore !== undefined ||
        (how === 'ambiguous' && reached === 'deferred' && dedupe === 'none'),
    );
    // A key shows that there is no copy only if the provider refuses the message for good.
    const mayHaveCopy =
      before.ambiguous > 0 &&
      (dedupe === 'none' || (dedupe === 'key' && OUTCOMES[how].kind !== 'rejected_permanent'));
    const end = endOf(mayHaveCopy ? 'unknown' : 'failed');
    const ends: Readonly<Partial<Record<End, MessageState>>> = {
      accepted: 'sent',
      refused: end,
      throttled: mayHaveCopy ? reached : 'deferred',
      not_started: 'queued',
    };
    expect(ends[how] ?? reached).toBe(reached);
    if (elsewhere !== undefined) expect([reached, nextAttemptAt]).toEqual(['deferred', now]);
    else if (GOES_ON.includes(how)) checkFullRound(how, reached, wasBound, end);
    if (how !== 'not_started') round = elsewhere === undefined ? new Map() : round.set(call.account, how);
    if (!settled.returned) accountId = settled.rerouted?.accountId ?? accountId;
    if (how === 'ambiguous') {
      const mayRepeat = dedupe !== 'none' || (guarantee === 'at_least_once' && before.ambiguous === 0);
      expect(mayRepeat ? ['deferred', 'unknown'] : ['unknown']).toContain(reached);
    }
    // A call that ends after the expiry does not make the message wait longer.
    if (reached === 'deferred') expect(nextAttemptAt).toBeGreaterThanOrEqual(Math.min(now, expiresAt));
  }

  /** Returns the facts as the recorded attempts show them. */
  function failoverFacts(): FailoverFacts {
    const isPermanent = (how: End | undefined): boolean =>
      how === 'accepted' || OUTCOMES[how ?? 'busy'].kind === 'rejected_permanent';
    const earlier = calls.slice(0, -1);
    const inRound = earlier.slice(earlier.length - round.size);
    const tried = earlier.flatMap((one): FailedTry[] => {
      if (one.end === undefined || !(isPermanent(one.end) || inRound.includes(one))) return [];
      const outcome = OUTCOMES[one.end];
      if (one.end === 'accepted') return [{ accountId: one.account, isPermanent: true, class: 'unknown' }];
      if (outcome.kind !== 'rejected_permanent' && outcome.kind !== 'rejected_transient') return [];
      return [{ accountId: one.account, isPermanent: isPermanent(one.end), class: outcome.failure.class }];
    });
    return { messageId: 'm', accountId, route, usable: usable(), tried };
  }

  /** Returns the next account of the route that was not called since the message last waited for the one called now. */
  function untried(called: string, how: End): string | undefined {
    const refused = refusedBy();
    const had = new Set([...round.keys(), called]);
    expect(how === 'unwanted' || !refused.has(called), 'an account that refused it is not asked again').toBe(
      true,
    );
    return order.find((id) => !disabled.has(id) && !refused.has(id) && !had.has(id));
  }

  function checkAccount(chosen: string | undefined, elsewhere: string | undefined): void {
    if (elsewhere !== undefined) expect(chosen).toBe(elsewhere);
    if (chosen !== undefined) expect(refusedBy().has(chosen)).toBe(false);
  }

  /** All accounts were called: the message waits for one that may accept it later, or there is none. */
  function checkFullRound(how: End, reached: MessageState, wasBound: boolean, end: MessageState): void {
    const mayTakeIt = wasBound
      ? how !== 'unwanted'
      : how !== 'unwanted' || order.some((id) => !disabled.has(id) && !refusedBy().has(id));
    expect(mayTakeIt ? ['deferred', end] : [end]).toContain(reached);
  }

  function usesRetry(how: End, reached: MessageState, elsewhere: string | undefined): boolean {
    if (reached !== 'deferred' || elsewhere !== undefined) return false;
    if (how === 'ambiguous') return true;
    if (!GOES_ON.includes(how)) return false;
    // At least one of the accounts that may accept it later is waited for as a retry.
    const last = new Map([...round, [calls.at(-1)?.account ?? '', how]]);
    const waited = [...last].filter(
      ([id]) => !refusedBy().has(id) && (!disabled.has(id) || id === calls.at(-1)?.account),
    );
    return waited.some(([, one]) => one === 'busy');
  }

  function reschedule(after: number): void {
    const isDue = now >= sendAt;
    const message = { status, sendAt, expiresAt, isDue, purgeOn: PURGE_ON, retentionDays: 30, moves: 0 };
    const decision = decideReschedule(message, now + after, now, LIMITS);
    const isWaitingForIt = status === 'scheduled' && !isDue;
    expect(decision.kind === 'move' || decision.kind === 'unchanged').toBe(isWaitingForIt);
    if (decision.kind !== 'move') return;
    expect(decision.expiresAt - decision.sendAt).toBe(expiresAt - sendAt);
    ({ sendAt, expiresAt } = decision);
    nextAttemptAt = sendAt;
  }

  function report({ state, temporary, of }: Extract<Step, { kind: 'report' }>): void {
    const attempt = calls.length === 0 ? 0 : (of % calls.length) + 1;
    const reached = calls[attempt - 1]?.end;
    // Receipts wait while a call is under way, and only calls that reached a provider are reported on.
    if (status === 'sending' || (reached !== 'accepted' && reached !== 'ambiguous')) return;
    const from = isWaiting(status) ? 'sent' : status;
    const copy = copies.get(attempt);
    const canArrive = from === 'sent' || from === 'unknown' || from === 'undelivered' || from === 'delivered';
    if (canArrive && state !== 'sent' && copy !== 'delivered' && copy !== 'undelivered') {
      const failing = temporary ? 'failing' : 'undelivered';
      copies.set(attempt, state === 'delivered' ? 'delivered' : failing);
    }
    // If the message returned to sent, the last accepted call decides.
    const deciding = isReturned ? (sentBefore?.attempt ?? 0) : calls.length;
    const { message } = applyReport(
      { ...known, status, attempt: deciding },
      { attempt, state, isTemporary: temporary, at: now },
    );
    const { status: next, attempt: _attempt, ...rest } = message;
    known = rest;
    const last = copies.get(deciding);
    const expected = !canArrive
      ? from
      : [...copies.values()].includes('delivered')
        ? 'delivered'
        : last !== undefined
          ? 'undelivered'
          : from === 'unknown' && state !== 'undelivered'
            ? 'sent'
            : from;
    expect(next, `${state} of call ${attempt} while ${status}`).toBe(expected);
    if (isWaiting(status) && !isWaiting(next)) [isByCall, isReturned] = [false, false];
    status = next;
    if (!isLive()) held = undefined;
  }

  function resume(): void {
    isActive = true;
    if (status !== 'held' || held === undefined) return;
    expiresAt += now - held.at;
    move(held.from);
    held = undefined;
  }

  function take(one: Step): void {
    const before = status;
    switch (one.kind) {
      case 'pass':
        now += one.ms;
        break;
      case 'look':
        look();
        break;
      case 'end':
        endCall(one.how, one.random);
        break;
      case 'attempt':
        now = Math.max(now, nextAttemptAt);
        look();
        endCall(one.how, one.random);
        break;
      case 'report':
        report(one);
        break;
      case 'late':
        late();
        break;
      case 'suspend':
        isActive = false;
        break;
      case 'resume':
        resume();
        break;
      case 'suppress':
        isSuppressed = one.on;
        break;
      case 'disable':
        if (one.on) disabled.add(one.account);
        else disabled.delete(one.account);
        break;
      case 'reschedule':
        reschedule(one.afterMs);
        break;
      case 'silence':
        // No receipt came within the maximum wait.
        if (status === 'sent' && receipts) move('unknown');
        break;
      case 'cancel':
        // A message that was accepted before counts as sent.
        if (decideCancel(sentBefore !== undefined && isLive() ? 'sent' : status) === 'cancel')
          move('canceled');
        expect(status === 'canceled').toBe(before === 'canceled' || (isWaiting(before) && !wasAccepted()));
        break;
    }
    const ended: readonly MessageState[] = ['canceled', 'failed', 'expired', 'suppressed', 'delivered'];
    if (ended.includes(before)) expect(status).toBe(before);
    if (wasAccepted()) expect(DEAF, 'what was accepted is heard of').not.toContain(status);
  }

  return {
    take,
    isLive,
    hasGoneOn: () => sentBefore !== undefined,
    /** Removes all obstacles, so that the message comes to an end by itself. */
    finish(): void {
      take({ kind: 'suppress', on: false });
      for (const account of ACCOUNTS) take({ kind: 'disable', on: false, account });
      take({ kind: 'resume' });
      if (status === 'sending') endCall('not_started', 0);
      now = Math.max(now, nextAttemptAt);
      if (status === 'scheduled') look();
      look();
      endCall('accepted', 0);
      expect(isLive()).toBe(false);
    },
  };
}

/** Two accounts accepted the message and reported nothing. The third refuses it when no time is left: it returns to the second. */
const REFUSED_AT_ITS_EXPIRY: [Terms, Step[]] = [
  {
    guarantee: 'at_least_once',
    dedupe: 'none',
    pinned: false,
    receipts: true,
    goesOn: true,
    strategy: 'priority',
    steps: 3,
    afterMs: 0,
  },
  [
    { kind: 'attempt', how: 'accepted', random: 0 },
    { kind: 'late' },
    { kind: 'attempt', how: 'accepted', random: 0 },
    { kind: 'late' },
    { kind: 'look' },
    { kind: 'pass', ms: LIFETIME_MS },
    { kind: 'end', how: 'busy', random: 0 },
    { kind: 'look' },
  ],
];

test('any history of a message matches the model and reaches an end', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(terms, fc.array(step, { minLength: 1, maxLength: 40 }), (given, steps) => {
      const world = createWorld(given);
      for (const one of steps) world.take(one);
      seen.add(world.isLive() ? 'live' : 'ended');
      world.finish();
      if (world.hasGoneOn()) seen.add('gone on');
    }),
    { numRuns: 5_000, examples: [REFUSED_AT_ITS_EXPIRY] },
  );
  expect([...seen].toSorted()).toEqual(['ended', 'gone on', 'live']);
});
