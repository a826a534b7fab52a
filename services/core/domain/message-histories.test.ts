import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyReport, type ReportedMessage } from './apply-report.ts';
import { decideCancel } from './decide-cancel.ts';
import { decideWaiting, type WaitingMessage } from './decide-waiting.ts';
import { canMove, isWaiting, LIVE_STATES, type MessageState } from './message-state.ts';
import type { AttemptOutcome, ReceiptKind } from './outcome.ts';
import { settle } from './settle.ts';

/**
 * Random histories of one message through the functions that decide about it. What they come to is held against a model that
 * knows nothing of them: it has the facts of the history, and says from these alone what may happen and what must.
 */
const [OWN, OTHER] = ['own', 'other'] as const;
const BEGIN = 1_800_000_000_000;
const LIFETIME_MS = 3_600_000;

type Terms = {
  readonly guarantee: 'at_least_once' | 'at_most_once';
  readonly dedupe: 'none' | 'key' | 'lookup';
  readonly pinned: boolean;
  readonly receipts: boolean;
};
type End = 'accepted' | 'refused' | 'busy' | 'throttled' | 'unauthorized' | 'ambiguous' | 'not_started';
type Step =
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'look' | 'cancel' | 'suspend' | 'resume' | 'silence' }
  | { readonly kind: 'suppress' | 'disable'; readonly on: boolean }
  /** `attempt`: one is made as soon as it may be. */
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
});
const end = fc.record({
  kind: fc.constantFrom('end', 'attempt', 'attempt', 'attempt'),
  how: fc.constantFrom<End[]>(
    'accepted',
    'refused',
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
  { weight: 6, arbitrary: end },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('cancel', 'suspend', 'resume', 'resume', 'silence') }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('suppress', 'disable'), on: fc.boolean() }),
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
  busy: { kind: 'rejected_transient', failure: { class: 'provider_unavailable', code: 'http_503' } },
  throttled: { kind: 'rejected_transient', failure: { class: 'provider_throttled', code: 'http_429' } },
  unauthorized: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: 'http_401' } },
  ambiguous: { kind: 'ambiguous', failure: { class: 'unknown', code: 'timeout' } },
  not_started: { kind: 'not_started', reason: 'shutdown' },
};

/** The message as the database would have it, moved by the decisions. */
function createWorld({ guarantee, dedupe, pinned, receipts }: Terms) {
  let now = BEGIN;
  let status: MessageState = 'queued';
  let accountId: string = OWN;
  let isActive = true;
  let isSuppressed = false;
  let isDisabled = false;
  let held: { at: number; from: MessageState } | undefined;
  let expiresAt = BEGIN + LIFETIME_MS;
  let nextAttemptAt = BEGIN;
  let counts = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
  let known: Omit<ReportedMessage, 'status' | 'attempt'> = {
    final: false,
    failure: null,
    segmentCount: 1,
    copies: {},
    partial: false,
    lateBounce: false,
    engagement: {},
  };

  // What has happened, as somebody outside would write it down. The model reads nothing else.
  const calls: { account: string; end?: End }[] = [];
  const copies = new Map<number, 'delivered' | 'failing' | 'undelivered'>();

  const accounts = () =>
    [OWN, OTHER].filter((id) => !(isDisabled && id === OWN)).map((id) => ({ id, channel: 'sms' }));
  const isLive = () => (LIVE_STATES as readonly MessageState[]).includes(status);

  function move(to: MessageState): void {
    expect(canMove(status, to), `${status} -> ${to}`).toBe(true);
    status = to;
  }

  /** What a look has to come to, by the facts alone. */
  function expectedOfLook(): MessageState {
    if (status !== 'queued' && status !== 'deferred') return status;
    if (!isActive) return 'held';
    if (now >= expiresAt) return 'expired';
    if (now < nextAttemptAt) return status;
    if (isSuppressed) return 'suppressed';
    const isBound = pinned || calls.some((call) => call.end === 'ambiguous');
    return isDisabled && accountId === OWN && isBound ? 'failed' : 'sending';
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
        accountStatus: isDisabled && accountId === OWN ? 'disabled' : 'active',
        pinned,
        ambiguous: counts.ambiguous,
        isDue: now >= nextAttemptAt,
        isExpired: now >= expiresAt,
        isLeaseOver: false,
        suppression: isSuppressed ? 'manual' : null,
      };
      const decision = decideWaiting(waiting, accounts(), []);
      if (decision.kind === 'assign') {
        accountId = decision.accountId;
        continue;
      }
      if (decision.kind === 'move') {
        if (decision.status === 'held') held = { at: now, from: status };
        move(decision.status);
      }
      if (decision.kind === 'lane') {
        move('sending');
        calls.push({ account: accountId });
      }
      break;
    }
    expect(status).toBe(expected);
    if (expected === 'sending') checkCalls();
  }

  /** What must hold of the calls whatever has happened. */
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
    if (pinned) expect(calls.every(({ account }) => account === OWN)).toBe(true);
    expect(calls.some(({ end: how }) => how === 'accepted' || how === 'refused')).toBe(false);
  }

  function endCall(how: End, random: number): void {
    const call = calls.at(-1);
    if (status !== 'sending' || call === undefined) return;
    const attempted = {
      ...counts,
      deliveryGuarantee: guarantee,
      expiresAt,
      dedupe,
      receiptsExpected: receipts,
    };
    const settled = settle(OUTCOMES[how], attempted, now, random);
    // A call that was never begun is none.
    if (how === 'not_started') calls.pop();
    else call.end = how;
    const before = counts;
    counts = {
      retries: settled.retries,
      ambiguous: settled.ambiguous,
      providerWaits: settled.providerWaits,
      duplicateRisk: settled.duplicateRisk,
    };
    move(settled.status);
    const reached: MessageState = settled.status;
    nextAttemptAt = settled.nextAttemptAt ?? nextAttemptAt;
    const usesRetry = reached === 'deferred' && (how === 'busy' || how === 'ambiguous');
    expect(counts.retries - before.retries).toBe(usesRetry ? 1 : 0);
    expect(counts.ambiguous).toBe(calls.filter((one) => one.end === 'ambiguous').length);
    expect(counts.duplicateRisk).toBe(
      before.duplicateRisk || (how === 'ambiguous' && reached === 'deferred' && dedupe === 'none'),
    );
    const ends: Readonly<Partial<Record<End, MessageState>>> = {
      accepted: 'sent',
      refused: 'failed',
      throttled: 'deferred',
      unauthorized: 'deferred',
      not_started: 'queued',
    };
    expect(ends[how] ?? reached).toBe(reached);
    if (how === 'busy') expect(['deferred', 'failed']).toContain(reached);
    if (how === 'ambiguous') {
      const mayRepeat = dedupe !== 'none' || (guarantee === 'at_least_once' && before.ambiguous === 0);
      expect(mayRepeat ? ['deferred', 'unknown'] : ['unknown']).toContain(reached);
    }
    // One that ends after the expiry waits for no more than that.
    if (reached === 'deferred') expect(nextAttemptAt).toBeGreaterThanOrEqual(Math.min(now, expiresAt));
  }

  function report({ state, temporary, of }: Extract<Step, { kind: 'report' }>): void {
    const attempt = calls.length === 0 ? 0 : (of % calls.length) + 1;
    const reached = calls[attempt - 1]?.end;
    // While a call is under way receipts wait; and only what reached a provider is reported on.
    if (status === 'sending' || (reached !== 'accepted' && reached !== 'ambiguous')) return;
    const from = isWaiting(status) ? 'sent' : status;
    const copy = copies.get(attempt);
    const canArrive = from === 'sent' || from === 'unknown' || from === 'undelivered' || from === 'delivered';
    if (canArrive && state !== 'sent' && copy !== 'delivered' && copy !== 'undelivered') {
      const failing = temporary ? 'failing' : 'undelivered';
      copies.set(attempt, state === 'delivered' ? 'delivered' : failing);
    }
    const { message } = applyReport(
      { ...known, status, attempt: calls.length },
      { attempt, state, isTemporary: temporary, at: now },
    );
    const { status: next, attempt: _attempt, ...rest } = message;
    known = rest;
    const last = copies.get(calls.length);
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
        isDisabled = one.on;
        break;
      case 'silence':
        // Nothing was heard for as long as is waited.
        if (status === 'sent' && receipts) move('unknown');
        break;
      case 'cancel':
        expect(decideCancel(status) === 'cancel').toBe(isWaiting(status));
        if (decideCancel(status) === 'cancel') move('canceled');
        break;
    }
    const ended: readonly MessageState[] = ['canceled', 'failed', 'expired', 'suppressed', 'delivered'];
    if (ended.includes(before)) expect(status).toBe(before);
  }

  return {
    take,
    isLive,
    /** Nothing stands in its way any more: it comes to an end by itself. */
    finish(): void {
      take({ kind: 'suppress', on: false });
      take({ kind: 'disable', on: false });
      take({ kind: 'resume' });
      if (status === 'sending') endCall('not_started', 0);
      now = Math.max(now, nextAttemptAt);
      look();
      endCall('accepted', 0);
      expect(isLive()).toBe(false);
    },
  };
}

test('whatever happens to a message, it does what the model says, and comes to an end', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(terms, fc.array(step, { minLength: 1, maxLength: 40 }), (given, steps) => {
      const world = createWorld(given);
      for (const one of steps) world.take(one);
      seen.add(world.isLive() ? 'live' : 'ended');
      world.finish();
    }),
    { numRuns: 5_000 },
  );
  expect([...seen].toSorted()).toEqual(['ended', 'live']);
});
