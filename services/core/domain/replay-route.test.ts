import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chooseAccount } from './choose-account.ts';
import type { FailedTry } from './failover.ts';
import type { FailureClass } from './failure.ts';
import { FAILURE_CLASSES } from './failure.ts';
import type { AttemptOutcome } from './outcome.ts';
import { replayRoute, type PastAnswer, type RoutedMessage } from './replay-route.ts';
import { FAILOVER_CLASSES, FAILOVER_DEFAULT, ROUTE_STRATEGIES, type Route } from './route.ts';
import { settle } from './settle.ts';

const CHANNEL = 'sms';
const IDS = ['a', 'b', 'c', 'd', 'e'] as const;
const accountsOf = (ids: readonly string[]) => ids.map((id) => ({ id, channel: CHANNEL }));
const routeOf = (...ids: readonly string[]): Route => ({
  channel: CHANNEL,
  version: 1,
  strategy: 'priority',
  steps: ids.map((accountId) => ({ accountId, weight: 1 })),
  failoverOn: FAILOVER_DEFAULT,
});
const refusal = (accountId: string, of: FailureClass | undefined, isPermanent = false): PastAnswer => ({
  accountId,
  isPermanent,
  class: of,
});
const message = (...answers: readonly PastAnswer[]): RoutedMessage => ({
  id: 'm',
  channel: CHANNEL,
  answers,
});

describe('a message of the past', () => {
  test('goes to the first step that can be used, and those before it are passed over', () => {
    expect(replayRoute(message(), routeOf('a', 'b', 'c'), accountsOf(['c', 'b']))).toEqual({
      accountId: 'b',
      steps: [
        { accountId: 'a', verdict: 'skipped', reason: 'disabled' },
        { accountId: 'b', verdict: 'chosen', reason: 'in_route' },
      ],
    });
  });

  test('goes nowhere where no step can be used', () => {
    expect(replayRoute(message(), routeOf('a', 'b'), accountsOf(['c']))).toEqual({
      accountId: null,
      steps: ['a', 'b'].map((accountId) => ({ accountId, verdict: 'skipped', reason: 'disabled' })),
    });
  });

  test('goes on from an account that refused it then, to one that has said nothing of it', () => {
    const past = message(refusal('a', 'provider_unavailable'), refusal('b', 'sender_rejected', true));
    expect(replayRoute(past, routeOf('b', 'a', 'c'), accountsOf(['a', 'b', 'c']))).toEqual({
      accountId: 'c',
      steps: [
        { accountId: 'b', verdict: 'failed', reason: 'sender_rejected' },
        { accountId: 'a', verdict: 'failed', reason: 'provider_unavailable' },
        { accountId: 'c', verdict: 'chosen', reason: 'next_in_route' },
      ],
    });
  });

  test('stays where the draft does not go on from, and where no answer came', () => {
    const both = accountsOf(['a', 'b']);
    const throttled = message(refusal('a', 'provider_throttled'));
    expect(replayRoute(throttled, routeOf('a', 'b'), both).accountId).toBe('a');
    const eager = { ...routeOf('a', 'b'), failoverOn: ['provider_throttled'] } as const;
    expect(replayRoute(throttled, eager, both).accountId).toBe('b');
    expect(replayRoute(message(refusal('a', undefined)), routeOf('a', 'b'), both).accountId).toBe('a');
  });

  test('ends where a recipient was refused for good, or no account is left', () => {
    const both = accountsOf(['a', 'b']);
    const wrong = message(refusal('a', 'invalid_recipient', true));
    expect(replayRoute(wrong, routeOf('a', 'b'), both)).toEqual({
      accountId: 'a',
      steps: [{ accountId: 'a', verdict: 'failed', reason: 'invalid_recipient' }],
    });
    const none = message(refusal('a', 'sender_rejected', true), refusal('b', 'sender_rejected', true));
    expect(replayRoute(none, routeOf('a', 'b'), both)).toMatchObject({
      accountId: 'b',
      steps: [{ verdict: 'failed' }, { verdict: 'failed' }],
    });
  });
});

const route: fc.Arbitrary<Route> = fc.record({
  channel: fc.constant(CHANNEL),
  version: fc.integer({ min: 1, max: 9 }),
  strategy: fc.constantFrom(...ROUTE_STRATEGIES),
  steps: fc.uniqueArray(
    fc.record({ accountId: fc.constantFrom<string[]>(...IDS), weight: fc.integer({ min: 1, max: 9 }) }),
    {
      minLength: 1,
      selector: ({ accountId }) => accountId,
    },
  ),
  failoverOn: fc.subarray([...FAILOVER_CLASSES]),
});
const failure = fc.record({ class: fc.constantFrom(...FAILURE_CLASSES), code: fc.constant('x') });
const outcome: fc.Arbitrary<AttemptOutcome> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('accepted' as const), providerMessageId: fc.constant(null) }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('rejected_transient' as const), failure }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('rejected_permanent' as const), failure }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('ambiguous' as const), failure }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('not_started' as const),
      reason: fc.constant('shutdown' as const),
    }),
  },
);
const usable = fc.subarray([...IDS], { minLength: 1 });

type Attempt = {
  readonly accountId: string;
  readonly outcome: AttemptOutcome;
  readonly isFailedOver: boolean;
};

/** What the api and workers make of a message, by what is logged of its calls. */
function send(id: string, by: Route, able: readonly string[], outcomes: readonly AttemptOutcome[]) {
  const chosen = chooseAccount(accountsOf(able), { id, channel: CHANNEL, pinned: null }, [by]);
  if (chosen === undefined) return undefined;
  let accountId = chosen.account.id;
  const log: Attempt[] = [];
  let state = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
  for (const one of outcomes) {
    const settled = settle(
      one,
      {
        ...state,
        deliveryGuarantee: 'at_least_once',
        expiresAt: 1e15,
        dedupe: 'none',
        receiptsExpected: false,
        ...('failure' in one && one.kind !== 'ambiguous'
          ? { failover: { messageId: id, accountId, route: by, usable: able, tried: triedOf(log) } }
          : {}),
      },
      0,
      0,
    );
    log.push({ accountId, outcome: one, isFailedOver: settled.reason === 'failed_over' });
    accountId = settled.rerouted?.accountId ?? accountId;
    state = settled;
    if (settled.status !== 'deferred' && settled.status !== 'queued') break;
  }
  return { accountId, log };
}

/** As SQL `failover_facts` reads them. */
function triedOf(log: readonly Attempt[]): FailedTry[] {
  const round = log.findLastIndex((one) => one.outcome.kind !== 'not_started' && !one.isFailedOver);
  return log.flatMap(({ accountId, outcome: one, isFailedOver }, at) => {
    if (!('failure' in one)) return [];
    const isPermanent = one.kind === 'rejected_permanent';
    return isPermanent || (isFailedOver && at > round)
      ? [{ accountId, isPermanent, class: one.failure.class }]
      : [];
  });
}

function answersOf(log: readonly Attempt[]): PastAnswer[] {
  return log.flatMap(({ accountId, outcome: one }) =>
    'failure' in one
      ? [
          refusal(
            accountId,
            one.kind === 'ambiguous' ? undefined : one.failure.class,
            one.kind === 'rejected_permanent',
          ),
        ]
      : [],
  );
}

test('by the route in force a message comes to the account that it came to, whatever was answered', () => {
  fc.assert(
    fc.property(fc.uuid(), route, usable, fc.array(outcome, { maxLength: 12 }), (id, by, able, outcomes) => {
      const sent = send(id, by, able, outcomes);
      const past = { id, channel: CHANNEL, answers: answersOf(sent?.log ?? []) };
      const replayed = replayRoute(past, by, accountsOf(able));
      expect(replayed.accountId).toBe(sent?.accountId ?? null);
      // The account that has it in the end stands last.
      if (sent !== undefined) expect(replayed.steps.at(-1)?.accountId).toBe(sent.accountId);
    }),
    { numRuns: 3_000 },
  );
});

test('by any route it comes to a step of it that can be used, or to none where there is none', () => {
  fc.assert(
    fc.property(
      fc.uuid(),
      route,
      usable,
      fc.array(outcome, { maxLength: 12 }),
      route,
      usable,
      (id, by, able, outcomes, draft, ableNow) => {
        const answers = answersOf(send(id, by, able, outcomes)?.log ?? []);
        const { accountId } = replayRoute({ id, channel: CHANNEL, answers }, draft, accountsOf(ableNow));
        const steps = draft.steps
          .map((step) => step.accountId)
          .filter((one) => ableNow.some((now) => now === one));
        if (steps.length === 0) expect(accountId).toBeNull();
        else expect(steps).toContain(accountId);
      },
    ),
    { numRuns: 2_000 },
  );
});
