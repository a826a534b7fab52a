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

test('no account is called before the wait that it requested, unless the message would expire until then', () => {
  fc.assert(
    fc.property(history, ({ inRoute, invalid, lifeMs, answers }) => {
      const route: Route = {
        channel: 'sms',
        version: 1,
        strategy: 'priority',
        steps: inRoute.map((accountId) => ({ accountId, weight: 1 })),
        failoverOn: FAILOVER_CLASSES,
      };
      const expiresAt = START + lifeMs;
      const log: Logged[] = [];
      let counts = { retries: 0, ambiguous: 0, providerWaits: 0, duplicateRisk: false };
      let accountId: string = inRoute[0] ?? 'a';
      let now = START;
      for (const { isPermanent, class: of, retryAfterMs, callMs, lateMs, random } of answers) {
        if (now >= expiresAt) return;
        const asked = log.findLast((one) => one.accountId === accountId);
        const readyAt = (asked?.endedAt ?? 0) + (asked?.askedMs ?? 0);
        if (readyAt < expiresAt) expect(now).toBeGreaterThanOrEqual(readyAt);
        now += callMs;
        const failure = { class: of, code: 'x' };
        const outcome: AttemptOutcome = isPermanent
          ? { kind: 'rejected_permanent', failure }
          : {
              kind: 'rejected_transient',
              failure,
              ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
            };
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
        log.push({
          accountId,
          class: of,
          isPermanent,
          endedAt: now,
          failedOver: settled.reason === 'failed_over',
          askedMs: isPermanent ? 0 : (retryAfterMs ?? 0),
          storedMs: settled.rerouted?.retryAfterMs ?? 0,
        });
        if (settled.status === 'failed') return;
        expect(settled.status).toBe('deferred');
        counts = {
          retries: settled.retries,
          ambiguous: settled.ambiguous,
          providerWaits: settled.providerWaits,
          duplicateRisk: settled.duplicateRisk,
        };
        accountId = settled.rerouted?.accountId ?? accountId;
        now = (settled.nextAttemptAt ?? now) + lateMs;
      }
    }),
    { numRuns: 2_000 },
  );
});
