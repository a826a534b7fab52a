import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { FailedTry } from '../routing/failover.ts';
import { FAILOVER_CLASSES, type Route } from '../routing/route.ts';
import type { AttemptOutcome } from './outcome.ts';
import { settle } from './settle.ts';
import type { AttemptedMessage } from './settlement.ts';

const START = 1_800_000_000_000;
const ACCOUNTS = ['a', 'b', 'c', 'd'] as const;

/** An ended call, as `attempt_log` stores it. */
type Logged = {
  readonly accountId: string;
  readonly class: FailedTry['class'];
  readonly isPermanent: boolean;
  readonly endedAt: number;
  readonly failedOver: boolean;
  /** What the vendor asked for. */
  readonly askedMs: number;
  /** What of it is stored. */
  readonly storedMs: number;
};

/** Returns what SQL `failover_facts` returns for these calls. */
function triedOf(log: readonly Logged[], now: number): FailedTry[] {
  const roundFrom = log.findLastIndex((one) => !one.failedOver) + 1;
  return log.flatMap((one, i): FailedTry[] => {
    const waitMs = Math.max(0, one.endedAt + one.storedMs - now);
    const isEarlier = !one.isPermanent && i < roundFrom;
    if (isEarlier && waitMs === 0) return [];
    return [{ accountId: one.accountId, isPermanent: one.isPermanent, class: one.class, waitMs, isEarlier }];
  });
}

const answer = fc.record({
  isPermanent: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, fc.constant(true)),
  class: fc.constantFrom(...FAILOVER_CLASSES),
  retryAfterMs: fc.option(fc.integer({ min: 1_000, max: 900_000 }), { nil: undefined }),
  callMs: fc.integer({ min: 0, max: 15_000 }),
  lateMs: fc.integer({ min: 0, max: 5_000 }),
  random: fc.double({ min: 0, max: 0.999, noNaN: true }),
});

const history = fc.record({
  inRoute: fc.uniqueArray(fc.constantFrom(...ACCOUNTS), { minLength: 1 }),
  invalid: fc.uniqueArray(fc.constantFrom(...ACCOUNTS), { maxLength: 1 }),
  lifeMs: fc.constantFrom(60_000, 600_000, 86_400_000),
  answers: fc.array(answer, { minLength: 1, maxLength: 40 }),
});

type Answer = typeof answer extends fc.Arbitrary<infer T> ? T : never;
type History = typeof history extends fc.Arbitrary<infer T> ? T : never;
/** `readyAt`: until when the account had asked not to be called. */
type Call = {
  readonly accountId: string;
  readonly at: number;
  readonly round: number;
  readonly readyAt: number;
};
type Played = { readonly calls: readonly Call[]; readonly expiresAt: number; readonly hasEnded: boolean };

/**
 * Calls the accounts of a route for one message as the worker does, until the answers are used up, the message has failed, or it
 * has expired.
 */
function play({ inRoute, invalid, lifeMs }: History, answers: Iterable<Answer>): Played {
  const route: Route = {
    channel: 'sms',
    version: 1,
    strategy: 'priority',
    steps: inRoute.map((accountId) => ({ accountId, weight: 1 })),
    failoverOn: FAILOVER_CLASSES,
  };
  const expiresAt = START + lifeMs;
  const log: Logged[] = [];
  const calls: Call[] = [];
  let counts = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
  let accountId: string = inRoute[0] ?? 'a';
  let now = START;
  let round = 0;
  for (const { isPermanent, class: of, retryAfterMs, callMs, lateMs, random } of answers) {
    if (now >= expiresAt) return { calls, expiresAt, hasEnded: true };
    const asked = log.findLast((one) => one.accountId === accountId);
    calls.push({ accountId, at: now, round, readyAt: (asked?.endedAt ?? 0) + (asked?.askedMs ?? 0) });
    now += callMs;
    const failure = { class: of, code: 'x' };
    const outcome: AttemptOutcome = isPermanent
      ? { kind: 'rejected_permanent', failure }
      : { kind: 'rejected_transient', failure, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
    const message: AttemptedMessage = {
      ...counts,
      deliveryGuarantee: 'at_least_once',
      expiresAt,
      dedupe: 'none',
      receiptsExpected: false,
      failover: {
        messageId: 'm',
        accountId,
        route,
        usable: inRoute,
        invalid: invalid.filter((id) => id !== accountId),
        tried: triedOf(log, now),
      },
    };
    const settled = settle(outcome, message, now, random);
    const failedOver = settled.reason === 'failed_over';
    log.push({
      accountId,
      class: of,
      isPermanent,
      endedAt: now,
      failedOver,
      askedMs: isPermanent ? 0 : (retryAfterMs ?? 0),
      storedMs: settled.rerouted?.retryAfterMs ?? 0,
    });
    if (settled.status === 'failed') return { calls, expiresAt, hasEnded: true };
    expect(settled.status).toBe('deferred');
    counts = {
      retries: settled.retries,
      ambiguous: settled.ambiguous,
      providerWaits: settled.providerWaits,
      duplicateRisk: settled.duplicateRisk,
    };
    if (!failedOver) round += 1;
    accountId = settled.rerouted?.accountId ?? accountId;
    // The database makes a message due at its expiry at the latest.
    now = Math.min(settled.nextAttemptAt ?? now, Math.max(now, expiresAt)) + lateMs;
  }
  return { calls, expiresAt, hasEnded: now >= expiresAt };
}

test('no account is called before the wait that it requested, unless the message would expire until then', () => {
  fc.assert(
    fc.property(history, (one) => {
      const { calls, expiresAt } = play(one, one.answers);
      const early = calls.filter(({ at, readyAt }) => at < readyAt && readyAt < expiresAt);
      expect(early).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});

test('a message that is only refused ends, after rounds that call each account once and of which only the first is repeated at once', () => {
  fc.assert(
    fc.property(history, (one) => {
      const { calls, hasEnded } = play(one, repeated(one.answers));
      expect(hasEnded).toBe(true);
      const places = calls.map(({ accountId, round }) => `${accountId} ${round}`);
      expect(new Set(places).size).toBe(places.length);
      const atOnce = calls.filter((call, i) => {
        const before = calls[i - 1];
        return before !== undefined && call.round > before.round && call.at - before.at < 1_000;
      });
      expect(atOnce.length, 'only the first retry follows at once').toBeLessThanOrEqual(1);
    }),
    { numRuns: 300 },
  );
});

/** Many more answers than a message can be called for before it expires. */
function* repeated(answers: readonly Answer[]): Generator<Answer> {
  for (let i = 0; i < 20_000; i += 1) yield answers[i % answers.length] as Answer;
}
