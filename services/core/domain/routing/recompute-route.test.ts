import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SILENT_MESSAGE } from '#test/support/silent-message.ts';
import { chooseAccount } from './choose-account.ts';
import { decideSilence } from '../receipts/decide-silence.ts';
import { decideWaiting } from '../sending/decide-waiting.ts';
import type { FailedTry } from './failover.ts';
import { FAILURE_CLASSES, type FailureClass } from '../sending/failure.ts';
import type { AttemptOutcome } from '../sending/outcome.ts';
import type { PastRouting, PastTurn } from './past-routing.ts';
import { recomputeRoute } from './recompute-route.ts';
import { FAILOVER_CLASSES, FAILOVER_DEFAULT, ROUTE_STRATEGIES, type Route } from './route.ts';
import { settle } from '../sending/settle.ts';
import type { ClosedReason, SkippedAccount } from './skipped-account.ts';

const CHANNEL = 'sms';
const IDS = ['a', 'b', 'c', 'd', 'e'] as const;
const accountsOf = (ids: readonly string[]) => ids.map((id) => ({ id, channel: CHANNEL }));
const routeOf = (...ids: readonly string[]): Route => ({
  channel: CHANNEL,
  version: 1,
  strategy: 'priority',
  steps: ids.map((accountId) => ({ accountId, weight: 1 })),
  failoverOn: FAILOVER_DEFAULT,
  maxWaitMs: null,
});
const refusal = (
  accountId: string,
  of: FailureClass,
  isPermanent = false,
  skipped: readonly SkippedAccount[] = [],
): PastTurn => ({ kind: 'refused', accountId, isPermanent, class: of, skipped });
const silence = (accountId: string): PastTurn => ({ kind: 'unanswered', accountId });
const message = (...turns: readonly PastTurn[]): PastRouting => ({ id: 'm', channel: CHANNEL, turns });

describe('a message whose route is recomputed', () => {
  test('goes to the first usable step, and the steps before it are skipped', () => {
    expect(recomputeRoute(message(), routeOf('a', 'b', 'c'), accountsOf(['c', 'b']))).toEqual({
      accountId: 'b',
      steps: [
        { accountId: 'a', verdict: 'skipped', reason: 'disabled' },
        { accountId: 'b', verdict: 'chosen', reason: 'in_route' },
      ],
    });
  });

  test('passes over an account whose credential was refused when the message failed over', () => {
    const refused = refusal('a', 'provider_unavailable', false, [{ accountId: 'b', reason: 'invalid' }]);
    expect(recomputeRoute(message(refused), routeOf('a', 'b', 'c'), accountsOf(['a', 'b', 'c']))).toEqual({
      accountId: 'c',
      steps: [
        { accountId: 'a', verdict: 'failed', reason: 'provider_unavailable' },
        { accountId: 'b', verdict: 'skipped', reason: 'invalid' },
        { accountId: 'c', verdict: 'chosen', reason: 'next_in_route' },
      ],
    });
  });

  test('goes nowhere if no step can be used', () => {
    expect(recomputeRoute(message(), routeOf('a', 'b'), accountsOf(['c']))).toEqual({
      accountId: null,
      steps: ['a', 'b'].map((accountId) => ({ accountId, verdict: 'skipped', reason: 'disabled' })),
    });
  });

  test('moves from accounts that refused it in the past to one that did not', () => {
    const past = message(refusal('a', 'provider_unavailable'), refusal('b', 'sender_rejected', true));
    expect(recomputeRoute(past, routeOf('b', 'a', 'c'), accountsOf(['a', 'b', 'c']))).toEqual({
      accountId: 'c',
      steps: [
        { accountId: 'b', verdict: 'failed', reason: 'sender_rejected' },
        { accountId: 'a', verdict: 'failed', reason: 'provider_unavailable' },
        { accountId: 'c', verdict: 'chosen', reason: 'next_in_route' },
      ],
    });
  });

  test('passes over an account that asked in an earlier round not to be called yet', () => {
    const [a, b, c] = [
      refusal('a', 'provider_unavailable'),
      refusal('b', 'provider_unavailable'),
      refusal('c', 'provider_unavailable'),
    ];
    const again = refusal('a', 'provider_unavailable', false, [{ accountId: 'b', reason: 'asked_to_wait' }]);
    const past = message(a, b, c, again);
    expect(recomputeRoute(past, routeOf('a', 'b', 'c'), accountsOf(['a', 'b', 'c']))).toMatchObject({
      accountId: 'c',
      steps: expect.arrayContaining([
        { accountId: 'b', verdict: 'skipped', reason: 'asked_to_wait' },
      ]) as unknown,
    });
  });

  test('stays after a refusal that the draft does not fail over on, and after an ambiguous call', () => {
    const both = accountsOf(['a', 'b']);
    const throttled = message(refusal('a', 'provider_throttled'));
    expect(recomputeRoute(throttled, routeOf('a', 'b'), both).accountId).toBe('a');
    const eager = { ...routeOf('a', 'b'), failoverOn: ['provider_throttled'] } as const;
    expect(recomputeRoute(throttled, eager, both).accountId).toBe('b');
    expect(recomputeRoute(message(silence('a')), routeOf('a', 'b'), both).accountId).toBe('a');
  });

  test('moves from an account without a receipt in time only if the route has a receipt timeout', () => {
    const silent = {
      kind: 'silent',
      accountId: 'a',
      skipped: [{ accountId: 'b', reason: 'breaker_open' }],
    } as const;
    const all = accountsOf(['a', 'b', 'c']);
    const patient = routeOf('a', 'b', 'c');
    const eager = { ...patient, receiptTimeoutMs: 10_000 };
    expect(recomputeRoute(message(silent), patient, all).accountId).toBe('a');
    const failed = { accountId: 'a', verdict: 'failed', reason: 'receipt_timeout' };
    const skipped = { accountId: 'b', verdict: 'skipped', reason: 'breaker_open' };
    expect(recomputeRoute(message(silent), eager, all)).toEqual({
      accountId: 'c',
      steps: [failed, skipped, { accountId: 'c', verdict: 'chosen', reason: 'next_in_route' }],
    });
    expect(recomputeRoute(message(silent, refusal('c', 'invalid_recipient', true)), eager, all)).toEqual({
      accountId: 'a',
      steps: [
        failed,
        skipped,
        { accountId: 'c', verdict: 'failed', reason: 'invalid_recipient' },
        { accountId: 'a', verdict: 'chosen', reason: 'sent_before' },
      ],
    });
  });

  test('comes back to an account that reports late, unless another one than then is waited for', () => {
    const past = {
      ...message({ kind: 'silent', accountId: 'a', skipped: [] }, refusal('b', 'provider_unavailable')),
      cameBack: { to: 'a', from: 'b' },
    };
    const all = accountsOf(['a', 'b', 'c']);
    const eager = { ...routeOf('a', 'b'), receiptTimeoutMs: 10_000 };
    expect(recomputeRoute(past, eager, all)).toEqual({
      accountId: 'a',
      steps: [
        { accountId: 'a', verdict: 'failed', reason: 'receipt_timeout' },
        { accountId: 'b', verdict: 'failed', reason: 'provider_unavailable' },
        { accountId: 'a', verdict: 'chosen', reason: 'sent_before' },
      ],
    });
    expect(recomputeRoute({ ...past, turns: past.turns.slice(0, 1) }, eager, all).steps).toHaveLength(2);
    const other = { ...routeOf('a', 'c'), receiptTimeoutMs: 10_000 };
    expect(recomputeRoute(past, other, all).accountId).toBe('c');
    expect(recomputeRoute(past, routeOf('a', 'b'), all).steps).toHaveLength(1);
  });

  test('moves from an account that was unavailable for too long only if the route has maxWaitMs', () => {
    const past = message({
      kind: 'delayed',
      accountId: 'a',
      why: 'rate_used_up',
      skipped: [{ accountId: 'b', reason: 'breaker_open' }],
    });
    const all = accountsOf(['a', 'b', 'c']);
    const patient = routeOf('a', 'b', 'c');
    expect(recomputeRoute(past, patient, all).accountId).toBe('a');
    expect(recomputeRoute(past, { ...patient, maxWaitMs: 1_000 }, all)).toEqual({
      accountId: 'c',
      steps: [
        { accountId: 'a', verdict: 'skipped', reason: 'rate_used_up' },
        { accountId: 'b', verdict: 'skipped', reason: 'breaker_open' },
        { accountId: 'c', verdict: 'chosen', reason: 'next_in_route' },
      ],
    });
  });

  test('moves after a silence to an account that was only waited for, and to none that was called', () => {
    const all = accountsOf(['a', 'b', 'c']);
    const eager = { ...routeOf('a', 'b', 'c'), maxWaitMs: 1_000, receiptTimeoutMs: 10_000 };
    const closed = [{ accountId: 'a', reason: 'breaker_open' }] as const;
    const delayed = { kind: 'delayed', accountId: 'a', why: 'breaker_open', skipped: [] } as const;
    const silent = { kind: 'silent', accountId: 'b', skipped: [] } as const;
    expect(recomputeRoute(message(delayed, silent), eager, all).accountId).toBe('a');
    const both = message(delayed, { ...silent, skipped: closed }, { ...silent, accountId: 'c' });
    expect(recomputeRoute(both, eager, all).accountId).toBe('a');
    const everywhere = message(
      delayed,
      { ...silent, skipped: closed },
      { ...silent, accountId: 'c', skipped: closed },
    );
    expect(recomputeRoute(everywhere, eager, all).accountId).toBe('c');
  });

  test('does not return to an account that it left because of the rate', () => {
    const delayed = { kind: 'delayed', why: 'rate_used_up', skipped: [] } as const;
    const past = message({ ...delayed, accountId: 'a' }, { ...delayed, accountId: 'b' });
    const eager = { ...routeOf('a', 'b'), maxWaitMs: 1_000 };
    expect(recomputeRoute(past, eager, accountsOf(['a', 'b'])).accountId).toBe('b');
    // The breaker of an account may close again.
    const open = message({ ...delayed, accountId: 'a', why: 'breaker_open' }, { ...delayed, accountId: 'b' });
    expect(recomputeRoute(open, eager, accountsOf(['a', 'b'])).accountId).toBe('a');
  });

  test('fails over to no account of another channel', () => {
    const mixed = [
      { id: 'a', channel: CHANNEL },
      { id: 'b', channel: 'email' },
    ];
    const refused = message(refusal('a', 'provider_unavailable'));
    expect(recomputeRoute(refused, routeOf('a', 'b'), mixed).accountId).toBe('a');
  });

  test('ends after a permanent refusal of the recipient, or if no account is left', () => {
    const both = accountsOf(['a', 'b']);
    const wrong = message(refusal('a', 'invalid_recipient', true));
    expect(recomputeRoute(wrong, routeOf('a', 'b'), both)).toEqual({
      accountId: 'a',
      steps: [{ accountId: 'a', verdict: 'failed', reason: 'invalid_recipient' }],
    });
    const none = message(refusal('a', 'sender_rejected', true), refusal('b', 'sender_rejected', true));
    expect(recomputeRoute(none, routeOf('a', 'b'), both)).toMatchObject({
      accountId: 'b',
      steps: [{ verdict: 'failed' }, { verdict: 'failed' }],
    });
  });
});

const route: fc.Arbitrary<Route> = fc.record({
  channel: fc.constant(CHANNEL),
  version: fc.integer({ min: 1, max: 9 }),
  strategy: fc.constantFrom(...ROUTE_STRATEGIES),
  steps: fc
    .shuffledSubarray([...IDS], { minLength: 1 })
    .map((ids) => ids.map((accountId, i) => ({ accountId, weight: 1 + (i % 3) }))),
  failoverOn: fc.subarray([...FAILOVER_CLASSES]),
  maxWaitMs: fc.constantFrom(null, 0, 10_000, 30_000),
  receiptTimeoutMs: fc.constantFrom(null, 10_000, 30_000),
});
const failure = fc.record({ class: fc.constantFrom(...FAILURE_CLASSES), code: fc.constant('x') });
const accepted: AttemptOutcome = { kind: 'accepted', providerMessageId: null };
const notStarted: AttemptOutcome = { kind: 'not_started', reason: 'shutdown' };
const invalid = fc.subarray<string>([...IDS], { maxLength: 1 });
const unavailable = {
  closed: fc.array(
    fc.tuple(fc.constantFrom(...IDS), fc.constantFrom<ClosedReason[]>('breaker_open', 'rate_used_up')),
    { minLength: 1, maxLength: 4 },
  ),
  invalid,
};
const wait = fc.record({ kind: fc.constant('wait' as const), ...unavailable });
/** A call is accepted, and no receipt comes in time. */
const noReceipt = fc.record({ kind: fc.constant('no_receipt' as const), ...unavailable });
const happening = fc.oneof(
  { weight: 1, arbitrary: fc.constant(accepted) },
  { weight: 1, arbitrary: fc.constant(notStarted) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('rejected_transient' as const), failure, invalid }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('rejected_permanent' as const), failure, invalid }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('ambiguous' as const), failure }) },
  { weight: 4, arbitrary: wait },
  { weight: 4, arbitrary: noReceipt },
);
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never;
const history = fc.array(happening, { maxLength: 14 });
const usable = fc.subarray([...IDS], { minLength: 1 });

/** Sends a message with the functions that the api and the workers use, and returns what is stored. */
function send(id: string, by: Route, able: readonly string[], past: readonly Happening[]) {
  const chosen = chooseAccount(accountsOf(able), { id, channel: CHANNEL, pinned: null }, [by]);
  if (chosen === undefined) return undefined;
  let accountId = chosen.account.id;
  const log: Logged[] = [];
  const turns: PastTurn[] = [];
  let state = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
  let sentBy: string | undefined;
  for (const one of past) {
    if (one.kind === 'no_receipt') {
      const silent = silenceOf(id, { accountId, by, able, log, ambiguous: state.ambiguous }, one);
      if (silent === undefined) break;
      turns.push(silent.turn);
      log.push({ accountId, turn: silent.turn, isFailedOver: false });
      sentBy = accountId;
      ({ accountId } = silent);
      continue;
    }
    // A recomputed route does not know what follows a call without an answer.
    if (one.kind === 'ambiguous' && sentBy !== undefined) continue;
    if (one.kind === 'wait') {
      const delayed = delayOf(id, { accountId, by, able, turns, ambiguous: state.ambiguous }, one);
      if (delayed === undefined) continue;
      turns.push(delayed.turn);
      ({ accountId } = delayed);
      continue;
    }
    const failover = {
      messageId: id,
      accountId,
      route: by,
      usable: able,
      invalid: 'invalid' in one ? one.invalid : [],
      tried: triedOf(log),
    };
    const settled = settle(
      one,
      {
        ...state,
        deliveryGuarantee: 'at_least_once',
        expiresAt: 1e15,
        dedupe: 'none',
        receiptsExpected: true,
        sentBy,
        ...('failure' in one && one.kind !== 'ambiguous' ? { failover } : {}),
      },
      0,
      0,
    );
    const turn = turnOf(accountId, one, (settled.rerouted ?? settled.stayed)?.skipped);
    if (turn !== undefined) turns.push(turn);
    if (one.kind !== 'not_started')
      log.push({ accountId, turn, isFailedOver: settled.reason === 'failed_over' });
    accountId = settled.rerouted?.accountId ?? accountId;
    state = settled;
    if (settled.status !== 'deferred' && settled.status !== 'queued') break;
  }
  return { accountId, turns };
}

/** A call that the log of attempts contains. */
type Logged = {
  readonly accountId: string;
  readonly turn: PastTurn | undefined;
  readonly isFailedOver: boolean;
};
type Waiting = {
  readonly accountId: string;
  readonly by: Route;
  readonly able: readonly string[];
  readonly turns: readonly PastTurn[];
  readonly ambiguous: number;
};

function delayOf(
  id: string,
  { accountId, by, able, turns, ambiguous }: Waiting,
  { closed, invalid }: Extract<Happening, { kind: 'wait' }>,
): { readonly turn: PastTurn; readonly accountId: string } | undefined {
  const statusOf = (of: string) => (invalid.includes(of) ? 'invalid' : 'active');
  const refused = turns.filter(
    (turn) => turn.kind === 'silent' || (turn.kind === 'refused' && turn.isPermanent),
  );
  const left = turns.filter((turn) => turn.kind === 'delayed' && turn.why === 'rate_used_up');
  const decision = decideWaiting(
    {
      id,
      channel: CHANNEL,
      status: 'queued',
      tenantStatus: 'active',
      test: false,
      accountId,
      accountStatus: statusOf(accountId),
      pinned: false,
      ambiguous,
      waitedMs: 60_000,
      refusedBy: refused.map((turn) => turn.accountId),
      leftForRate: left.map((turn) => turn.accountId),
      isDue: true,
      isExpired: false,
      isLeaseOver: false,
      suppression: null,
      brake: null,
    },
    accountsOf(able).map((account) => ({ ...account, status: statusOf(account.id) })),
    [by],
    new Map(closed),
  );
  if (decision.kind !== 'assign' || decision.why === 'disabled') return undefined;
  const { rerouted, why } = decision;
  const turn: PastTurn = { kind: 'delayed', accountId, why, skipped: rerouted.skipped };
  return { turn, accountId: rerouted.accountId };
}

type Sent = Pick<Waiting, 'accountId' | 'by' | 'able' | 'ambiguous'> & { readonly log: readonly Logged[] };

function silenceOf(
  id: string,
  { accountId, by, able, log, ambiguous }: Sent,
  { closed, invalid }: Extract<Happening, { kind: 'no_receipt' }>,
): { readonly turn: PastTurn; readonly accountId: string } | undefined {
  const decision = decideSilence(
    {
      ...SILENT_MESSAGE,
      id,
      channel: CHANNEL,
      accountId,
      // The same as SQL `take_silent`.
      tried: log.map((one) => one.accountId),
      ambiguous,
    },
    able.map((of) => ({ id: of, channel: CHANNEL, status: invalid.includes(of) ? 'invalid' : 'active' })),
    [by],
    new Map(closed),
  );
  if (decision.kind !== 'move') return undefined;
  const { skipped, accountId: to } = decision.rerouted;
  return { turn: { kind: 'silent', accountId, skipped }, accountId: to };
}

function turnOf(
  accountId: string,
  one: AttemptOutcome,
  skipped: readonly SkippedAccount[] = [],
): PastTurn | undefined {
  if (!('failure' in one)) return undefined;
  if (one.kind === 'ambiguous') return silence(accountId);
  return refusal(accountId, one.failure.class, one.kind === 'rejected_permanent', skipped);
}

/** Returns the same as SQL `failover_facts`. */
function triedOf(log: readonly Logged[]): FailedTry[] {
  const round = log.findLastIndex(({ turn, isFailedOver }) => !isFailedOver && turn?.kind !== 'silent');
  return log.flatMap(({ accountId, turn, isFailedOver }, at): FailedTry[] => {
    if (turn?.kind === 'silent') return [{ accountId, isPermanent: true, class: 'unknown' }];
    return turn?.kind === 'refused' && (turn.isPermanent || (isFailedOver && at > round)) ? [turn] : [];
  });
}

test('a route recomputed with the route in force ends at the account that had the message, for any history', () => {
  let [failedOver, delayed, silent, silentAfterWait] = [0, 0, 0, 0];
  fc.assert(
    fc.property(fc.uuid(), route, usable, history, (id, by, able, past) => {
      const sent = send(id, by, able, past);
      const recomputed = recomputeRoute(
        { id, channel: CHANNEL, turns: sent?.turns ?? [] },
        by,
        accountsOf(able),
      );
      expect(recomputed.accountId).toBe(sent?.accountId ?? null);
      // The account that has the message in the end is the last step.
      if (sent !== undefined) expect(recomputed.steps.at(-1)?.accountId).toBe(sent.accountId);
      failedOver += Number(recomputed.steps.filter(({ verdict }) => verdict === 'failed').length > 1);
      delayed += Number(sent?.turns.some(({ kind }) => kind === 'delayed') ?? false);
      const kinds = sent?.turns.map(({ kind }) => kind).join(' ') ?? '';
      silent += Number(kinds.includes('silent'));
      silentAfterWait += Number(/delayed.*silent/.test(kinds));
    }),
    { numRuns: 10_000 },
  );
  // Checks that such histories occurred.
  expect(Math.min(failedOver, delayed, silent)).toBeGreaterThan(100);
  expect(silentAfterWait).toBeGreaterThan(10);
});

test('a route recomputed with any route ends at a usable step of it, or at none if there is none', () => {
  fc.assert(
    fc.property(fc.uuid(), route, usable, history, route, usable, (id, by, able, past, draft, ableNow) => {
      const turns = send(id, by, able, past)?.turns ?? [];
      const { accountId } = recomputeRoute({ id, channel: CHANNEL, turns }, draft, accountsOf(ableNow));
      const steps = draft.steps.map((step) => step.accountId);
      const left = steps.filter((one) => ableNow.some((now) => now === one));
      if (left.length === 0) expect(accountId).toBeNull();
      else expect(left).toContain(accountId);
    }),
    { numRuns: 2_000 },
  );
});
