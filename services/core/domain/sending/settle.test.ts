import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Failure, FailureClass } from './failure.ts';
import { FAILURE_CLASSES } from './failure.ts';
import { canMove } from '../message/message-state.ts';
import { NOT_STARTED_REASONS, type AttemptOutcome } from './outcome.ts';
import { AMBIGUOUS_RETRY_MS, RETRY_DELAYS_MS } from './retry.ts';
import { FAILOVER_DEFAULT, type Route } from '../routing/route.ts';
import { RECEIPT_TIMEOUT_MS, settle } from './settle.ts';
import type { AttemptedMessage } from './settlement.ts';

const NOW = 1_800_000_000_000;
const DAY = 86_400_000;

const message = (overrides: Partial<AttemptedMessage> = {}): AttemptedMessage => ({
  retries: 0,
  ambiguous: 0,
  providerWaits: 0,
  duplicateRisk: false,
  deliveryGuarantee: 'at_least_once',
  expiresAt: NOW + DAY,
  dedupe: 'none',
  receiptsExpected: false,
  ...overrides,
});
const failure = (failureClass: FailureClass): Failure => ({ class: failureClass, code: 'x' });
const transient = (
  failureClass: FailureClass = 'provider_unavailable',
  retryAfterMs?: number,
): AttemptOutcome => ({
  kind: 'rejected_transient',
  failure: failure(failureClass),
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
});
const ambiguous: AttemptOutcome = { kind: 'ambiguous', failure: failure('unknown') };

describe('a message that another account has accepted before', () => {
  const before = { sentBy: 'first', duplicateRisk: true };
  const refused: AttemptOutcome = { kind: 'rejected_permanent', failure: failure('invalid_recipient') };

  test('returns to that account if this one refuses it or no time is left for a retry', () => {
    const returned = { status: 'sent', reason: 'no_other_account', returned: true, final: false };
    expect(settle(refused, message(before), NOW, 0)).toMatchObject({ ...returned, nextAttemptAt: null });
    const last = message({ ...before, retries: 3, expiresAt: NOW + 1 });
    expect(settle(transient(), last, NOW, 0)).toMatchObject(returned);
    expect(settle(refused, message(), NOW, 0)).toMatchObject({ status: 'failed', returned: false });
  });

  test('records the account and the route version when it returns', () => {
    const steps = ['first', 'second'].map((accountId) => ({ accountId, weight: 1 }));
    const route: Route = {
      channel: 'sms',
      version: 5,
      strategy: 'priority',
      steps,
      failoverOn: FAILOVER_DEFAULT,
    };
    const failover = {
      messageId: 'm',
      accountId: 'second',
      route,
      usable: ['first', 'second'],
      tried: [{ accountId: 'first', isPermanent: true, class: 'unknown' }],
    } as const;
    const bad: AttemptOutcome = { kind: 'rejected_permanent', failure: failure('sender_rejected') };
    expect(settle(bad, message({ ...before, failover }), NOW, 0)).toMatchObject({
      status: 'sent',
      rerouted: { accountId: 'first', version: 5, skipped: [] },
      stayed: null,
    });
  });

  test('awaits a receipt even if this account sends none', () => {
    expect(settle({ kind: 'accepted', providerMessageId: 'p' }, message(before), NOW, 0)).toMatchObject({
      status: 'sent',
      final: false,
      awaitUntil: NOW + RECEIPT_TIMEOUT_MS,
      failoverMs: null,
    });
  });
});

test.each([
  ['is the one of its route', {}, 30_000],
  ['is null with at_most_once', { deliveryGuarantee: 'at_most_once' as const }, null],
  ['is null if no receipt can come', { receiptsExpected: false }, null],
  ['is null after an ambiguous call', { ambiguous: 1 }, null],
  ['is null if its route has none', { receiptTimeoutMs: undefined }, null],
])('the receipt timeout for failover of an accepted message %s', (_name, given, ms) => {
  const one = message({ receiptsExpected: true, receiptTimeoutMs: 30_000, ...given });
  expect(settle({ kind: 'accepted', providerMessageId: 'p' }, one, NOW, 0).failoverMs).toBe(ms);
});

describe('acceptance by the provider', () => {
  test('is final at sent if the provider sends no receipts', () => {
    expect(settle({ kind: 'accepted', providerMessageId: 'p' }, message(), NOW, 0)).toMatchObject({
      status: 'sent',
      final: true,
      awaitUntil: null,
    });
  });

  test('awaits a receipt for 72 hours if the provider sends receipts', () => {
    const settled = settle(
      { kind: 'accepted', providerMessageId: 'p' },
      message({ receiptsExpected: true }),
      NOW,
      0,
    );
    expect(RECEIPT_TIMEOUT_MS).toBe(3 * DAY);
    expect(settled).toMatchObject({ status: 'sent', final: false, awaitUntil: NOW + RECEIPT_TIMEOUT_MS });
  });

  test('by a simulator brings the receipts that follow, and by a provider none', () => {
    const receipts = [{ afterMs: 10, receipt: 'delivered' }] as const;
    const accepted = { kind: 'accepted', providerMessageId: 'p' } as const;
    expect(settle({ ...accepted, receipts }, message(), NOW, 0).receipts).toEqual(receipts);
    expect(settle(accepted, message(), NOW, 0).receipts).toEqual([]);
  });
});

describe('a provider with status lookup', () => {
  const accepted = { kind: 'accepted', providerMessageId: 'p' } as const;

  test.each(['id', 'reference'] as const)(
    'by %s is asked an hour after it accepted a message with receipts',
    (lookup) => {
      const settled = settle(accepted, message({ receiptsExpected: true, lookup }), NOW, 0);
      expect(settled.awaitUntil).toBe(NOW + 3_600_000);
      expect(settle(accepted, message({ lookup }), NOW, 0).awaitUntil).toBeNull();
    },
  );

  test('by reference is asked a minute after an ambiguous call', () => {
    const given = { deliveryGuarantee: 'at_most_once' } as const;
    const awaitUntil = (lookup: AttemptedMessage['lookup']) =>
      settle(ambiguous, message({ ...given, lookup }), NOW, 0).awaitUntil;
    expect([awaitUntil('reference'), awaitUntil('id'), awaitUntil(undefined)]).toEqual([
      NOW + 60_000,
      null,
      null,
    ]);
  });
});

describe('transient rejections', () => {
  test.each([...RETRY_DELAYS_MS.entries()])('retry %i waits %i ms', (retries, delay) => {
    const settled = settle(transient(), message({ retries }), NOW, 0);
    expect(settled).toMatchObject({ status: 'deferred', nextAttemptAt: NOW + delay, retries: retries + 1 });
  });

  test('waits for the provider are counted up to a bound that the database can store', () => {
    const throttled = {
      kind: 'rejected_transient',
      failure: { class: 'provider_throttled', code: 'http_429' },
    } as const;
    const waits = (providerWaits: number) =>
      settle(throttled, message({ providerWaits }), NOW, 0).providerWaits;
    expect([waits(0), waits(31_999), waits(32_767)]).toEqual([1, 32_000, 32_000]);
  });

  test('retries continue every two hours after the schedule', () => {
    expect(settle(transient(), message({ retries: 50 }), NOW, 0).nextAttemptAt).toBe(NOW + 2 * 3_600_000);
  });

  test('jitter adds up to a fifth and never subtracts', () => {
    fc.assert(
      fc.property(fc.nat(20), fc.double({ min: 0, max: 0.999, noNaN: true }), (retries, random) => {
        const at =
          settle(transient(), message({ retries, expiresAt: NOW + 30 * DAY }), NOW, random).nextAttemptAt ??
          0;
        const delay = RETRY_DELAYS_MS[Math.min(retries, RETRY_DELAYS_MS.length - 1)] ?? 0;
        expect(at - NOW).toBeGreaterThanOrEqual(delay);
        expect(at - NOW).toBeLessThanOrEqual(delay * 1.2 + 1);
      }),
    );
  });

  test('the provider’s Retry-After is never undercut', () => {
    expect(settle(transient('provider_unavailable', 90_000), message(), NOW, 0).nextAttemptAt).toBe(
      NOW + 90_000,
    );
  });

  test('a message that could only be retried after its expiry fails with its last reason', () => {
    const settled = settle(transient(), message({ retries: 1, expiresAt: NOW + 5_000 }), NOW, 0);
    expect(settled).toMatchObject({ status: 'failed', reason: 'no_retry_left', final: true });
    expect(settled.failure).toMatchObject({ class: 'provider_unavailable', retryable: true });
  });

  test('a retry is due before the expiry, not at it', () => {
    const statusAt = (expiresAt: number) =>
      settle(transient(), message({ retries: 1, expiresAt }), NOW, 0).status;
    expect([statusAt(NOW + 15_001), statusAt(NOW + 15_000)]).toEqual(['deferred', 'failed']);
  });

  test.each(['provider_unavailable', 'auth_or_config', 'provider_throttled'] as const)(
    'after %s a waiting message shows a failure that may pass',
    (failureClass) => {
      const settled = settle(transient(failureClass), message(), NOW, 0);
      expect(settled).toMatchObject({
        status: 'deferred',
        failure: { class: failureClass, retryable: true },
      });
    },
  );

  test.each(['auth_or_config', 'provider_throttled'] as const)('%s uses no retry', (failureClass) => {
    const settled = settle(transient(failureClass), message({ retries: 3 }), NOW, 0);
    expect(settled).toMatchObject({ status: 'deferred', retries: 3, providerWaits: 1 });
  });

  test('a message that waits for its provider is due at its expiry at the latest', () => {
    const settled = settle(transient('auth_or_config'), message({ expiresAt: NOW + 1_000 }), NOW, 0.9);
    expect(settled.nextAttemptAt).toBe(NOW + 1_000);
  });
});

describe('ambiguous calls', () => {
  test('at_least_once retries once and sets duplicateRisk', () => {
    const settled = settle(ambiguous, message(), NOW, 0);
    expect(settled).toMatchObject({ status: 'deferred', duplicateRisk: true, ambiguous: 1 });
    expect(settled.nextAttemptAt).toBe(NOW + AMBIGUOUS_RETRY_MS);
    expect(settled.failure).toEqual({ class: 'unknown', code: 'x', retryable: true });
  });

  test('are repeated after the same time whatever retries came before, unless the provider prevents duplicates', () => {
    const delayMs = (dedupe: AttemptedMessage['dedupe']) =>
      (settle(ambiguous, message({ dedupe, retries: 3 }), NOW, 0).nextAttemptAt ?? 0) - NOW;
    expect([delayMs('none'), delayMs('key'), delayMs('lookup')]).toEqual([2_000, 300_000, 300_000]);
  });

  test('leave a message unknown if it expires by the time of the repetition', () => {
    const statusAt = (expiresAt: number) => settle(ambiguous, message({ expiresAt }), NOW, 0).status;
    expect([statusAt(NOW + 2_001), statusAt(NOW + 2_000)]).toEqual(['deferred', 'unknown']);
  });

  test('a second ambiguous call ends as unknown', () => {
    const settled = settle(ambiguous, message({ ambiguous: 1, duplicateRisk: true }), NOW, 0);
    expect(settled).toMatchObject({ status: 'unknown', reason: 'ambiguous_attempt', duplicateRisk: true });
  });

  test('at_most_once never calls again', () => {
    const settled = settle(ambiguous, message({ deliveryGuarantee: 'at_most_once' }), NOW, 0);
    expect(settled).toMatchObject({ status: 'unknown', nextAttemptAt: null, duplicateRisk: false });
  });

  test.each([
    ['nothing can follow', {}, true],
    ['receipts are expected', { receiptsExpected: true }, false],
    ['a lookup follows', { lookup: 'reference' }, false],
  ] as const)('an unknown message is final only if no receipt or lookup can follow: %s', (_, over, final) => {
    const settled = settle(ambiguous, message({ deliveryGuarantee: 'at_most_once', ...over }), NOW, 0);
    expect(settled).toMatchObject({ status: 'unknown', final });
  });

  test('a message that may exist once is looked up when no time is left for another call, if the provider can be asked', () => {
    // A provider that knows keys may answer 429 before it compares them.
    const attempted = message({ dedupe: 'key', ambiguous: 1, expiresAt: NOW + 1 });
    const throttled: AttemptOutcome = { kind: 'rejected_transient', failure: failure('provider_throttled') };
    expect(settle(throttled, { ...attempted, lookup: 'reference' }, NOW, 0)).toMatchObject({
      status: 'unknown',
      awaitUntil: NOW + 60_000,
      final: false,
    });
    expect(settle(throttled, attempted, NOW, 0)).toMatchObject({ awaitUntil: null, final: true });
  });

  test('a provider with dedupe by lookup gets a minute before the retry', () => {
    const settled = settle(
      ambiguous,
      message({ dedupe: 'lookup', deliveryGuarantee: 'at_most_once' }),
      NOW,
      0,
    );
    expect(settled).toMatchObject({ status: 'deferred', duplicateRisk: false, nextAttemptAt: NOW + 60_000 });
  });

  test('a provider with dedupe by key is retried without duplicateRisk', () => {
    const settled = settle(ambiguous, message({ dedupe: 'key', ambiguous: 3 }), NOW, 0);
    expect(settled).toMatchObject({ status: 'deferred', duplicateRisk: false });
  });

  test.each([
    [1_001, 'deferred'],
    [1_000, 'unknown'],
  ])('a provider that keeps the idempotency key for %i ms: the message is %s', (lifetimeMs, status) => {
    // The repetition is due after 15 s.
    const over = {
      dedupe: 'key',
      retries: 1,
      ambiguous: 1,
      keyKnownUntil: NOW + 14_000 + lifetimeMs,
    } as const;
    expect(settle(ambiguous, message({ ...over, expiresAt: NOW + DAY }), NOW, 0)).toMatchObject({ status });
  });

  describe('before the last call', () => {
    const refused: AttemptOutcome = { kind: 'rejected_permanent', failure: failure('sender_rejected') };
    const repeated = { ambiguous: 1, duplicateRisk: true, receiptsExpected: true };

    test.each([
      ['is refused permanently', refused, {}],
      ['has no time left for a retry', transient(), { retries: 3, expiresAt: NOW + 1 }],
      ['would wait for its provider until it expires', transient('auth_or_config'), { expiresAt: NOW + 1 }],
    ])(
      'leave a message that %s unknown, so that receipts of the first copy count',
      (_name, outcome, over) => {
        const settled = settle(outcome, message({ ...repeated, ...over }), NOW, 0);
        expect(settled).toMatchObject({ status: 'unknown', reason: 'ambiguous_attempt', final: false });
        expect(settled.failure).toMatchObject({ code: 'x' });
      },
    );

    test('leave a message finally unknown if no receipt can come', () => {
      const settled = settle(refused, message({ ...repeated, receiptsExpected: false }), NOW, 0);
      expect(settled).toMatchObject({ status: 'unknown', final: true });
    });

    test.each(['key', 'lookup'] as const)(
      'do not matter if the provider prevents duplicates by %s',
      (dedupe) => {
        const settled = settle(refused, message({ ...repeated, dedupe }), NOW, 0);
        expect(settled).toMatchObject({ status: 'failed', final: true });
      },
    );

    test.each([
      ['key', 'unknown'],
      ['lookup', 'failed'],
    ] as const)('leave a message with dedupe by %s that is refused temporarily %s', (dedupe, status) => {
      // It may come before the provider compares keys; a look-up has said that there is no copy.
      const over = { ...repeated, dedupe, retries: 3, expiresAt: NOW + 1 };
      expect(settle(transient(), message(over), NOW, 0)).toMatchObject({ status });
    });
  });
});

test.each(NOT_STARTED_REASONS)('%s uses no retry and puts the message back in the queue', (reason) => {
  const settled = settle({ kind: 'not_started', reason }, message({ retries: 2, ambiguous: 1 }), NOW, 0.5);
  expect(settled).toMatchObject({ status: 'queued', reason, retries: 2, ambiguous: 1, providerWaits: 0 });
});

test.each([
  ['shutdown', 0],
  ['lease_over', 0],
  ['provider_rate', 1_000],
  ['credentials_unavailable', 2_000],
  ['content_unavailable', 2_000],
  ['breaker_open', 5_000],
] as const)('after %s an attempt is made %i ms later, up to twice that', (reason, ms) => {
  const delayMs = (random: number) =>
    (settle({ kind: 'not_started', reason }, message(), NOW, random).nextAttemptAt ?? 0) - NOW;
  expect([delayMs(0), delayMs(0.5)]).toEqual([ms, ms * 1.5]);
});

test('an attempt not made leaves a message that may have been sent in the queue, also at its expiry', () => {
  const outcome = { kind: 'not_started', reason: 'breaker_open' } as const;
  expect(settle(outcome, message({ ambiguous: 1, expiresAt: NOW }), NOW, 0).status).toBe('queued');
});

test('an attempt not made because of expiry is due again after a second, for clock differences', () => {
  const outcome = { kind: 'not_started', reason: 'lease_over' } as const;
  const at = (expiresAt: number) => settle(outcome, message({ expiresAt }), NOW, 0).nextAttemptAt;
  expect([at(NOW + 1), at(NOW)]).toEqual([NOW, NOW + 1_000]);
});

test('for any outcome, the next state is allowed, and only waiting messages have a next attempt', () => {
  const outcomes = fc.oneof(
    fc.constant<AttemptOutcome>({ kind: 'accepted', providerMessageId: null }),
    fc.constantFrom(...FAILURE_CLASSES).chain((c) =>
      fc.constantFrom<AttemptOutcome>({ kind: 'rejected_permanent', failure: failure(c) }, transient(c), {
        kind: 'ambiguous',
        failure: failure(c),
      }),
    ),
    fc
      .constantFrom(...NOT_STARTED_REASONS)
      .map((reason): AttemptOutcome => ({ kind: 'not_started', reason })),
  );
  const messages = fc.record({
    retries: fc.nat(60),
    ambiguous: fc.nat(3),
    providerWaits: fc.nat(60),
    duplicateRisk: fc.boolean(),
    deliveryGuarantee: fc.constantFrom('at_least_once' as const, 'at_most_once' as const),
    expiresAt: fc.integer({ min: NOW - 10_000, max: NOW + 90 * DAY }),
    dedupe: fc.constantFrom('key' as const, 'lookup' as const, 'none' as const),
    receiptsExpected: fc.boolean(),
    keyKnownUntil: fc.option(fc.integer({ min: NOW - 10_000, max: NOW + 3 * DAY }), { nil: undefined }),
  });
  fc.assert(
    fc.property(
      outcomes,
      messages,
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (outcome, attempted, random) => {
        const settled = settle(outcome, attempted, NOW, random);
        expect(canMove('sending', settled.status)).toBe(true);
        const waits = settled.status === 'queued' || settled.status === 'deferred';
        expect(settled.nextAttemptAt !== null).toBe(waits);
        // Once a copy may exist, that fact is never lost.
        expect(settled.duplicateRisk || !attempted.duplicateRisk).toBe(true);
        if (
          outcome.kind === 'ambiguous' &&
          attempted.deliveryGuarantee === 'at_most_once' &&
          attempted.dedupe === 'none'
        ) {
          expect(settled.status).toBe('unknown');
        }
        const { keyKnownUntil = Infinity } = attempted;
        if (outcome.kind === 'ambiguous' && attempted.dedupe === 'key') {
          expect((settled.nextAttemptAt ?? NOW - DAY) < keyKnownUntil).toBe(true);
        }
        // A copy that may exist can still be reported on.
        if (attempted.ambiguous > 0 && attempted.dedupe === 'none') expect(settled.status).not.toBe('failed');
      },
    ),
  );
});

describe('with other accounts in the route', () => {
  const route: Route = {
    channel: 'sms',
    version: 7,
    strategy: 'priority',
    steps: ['a', 'b'].map((accountId) => ({ accountId, weight: 1 })),
    failoverOn: FAILOVER_DEFAULT,
  };
  const failover = { messageId: 'm', accountId: 'a', route, usable: ['a', 'b'], tried: [] } as const;
  const refused: AttemptOutcome = { kind: 'rejected_permanent', failure: failure('sender_rejected') };
  const last = {
    ...failover,
    accountId: 'b',
    tried: [{ accountId: 'a', ...({ isPermanent: false, class: 'provider_unavailable' } as const) }],
  };

  test.each([
    ['a permanent refusal', refused],
    ['a temporary refusal', transient()],
    ['a refused credential', transient('auth_or_config')],
  ])('%s fails over at once and uses no retry', (_name, outcome) => {
    expect(settle(outcome, message({ retries: 2, failover }), NOW, 0.5)).toMatchObject({
      status: 'deferred',
      reason: 'failed_over',
      nextAttemptAt: NOW,
      retries: 2,
      providerWaits: 0,
      failure: { retryable: true },
      rerouted: { accountId: 'b', version: 7, skipped: [] },
    });
  });

  test('an ambiguous call, now or before, does not fail over', () => {
    const now = settle(ambiguous, message({ failover }), NOW, 0);
    expect([now.reason, now.rerouted]).toEqual(['ambiguous_attempt', null]);
    for (const outcome of [refused, transient(), transient('auth_or_config')]) {
      const after = settle(outcome, message({ ambiguous: 1, failover }), NOW, 0);
      expect(after).toEqual(settle(outcome, message({ ambiguous: 1 }), NOW, 0));
    }
  });

  test('a fault of the recipient or content does not fail over', () => {
    for (const of of ['invalid_recipient', 'content_rejected'] as const) {
      const settled = settle(
        { kind: 'rejected_permanent', failure: failure(of) },
        message({ failover }),
        NOW,
        0,
      );
      expect(settled).toMatchObject({ status: 'failed', rerouted: null, final: true });
    }
  });

  test('after all accounts, the retry schedule continues with the first', () => {
    expect(settle(transient(), message({ retries: 1, failover: last }), NOW, 0)).toMatchObject({
      status: 'deferred',
      reason: 'retry',
      retries: 2,
      nextAttemptAt: NOW + 15_000,
      rerouted: { accountId: 'a' },
    });
  });

  test('a permanent refusal of the last account leaves the retry to the others', () => {
    const settled = settle(refused, message({ failover: last }), NOW, 0);
    expect(settled).toMatchObject({ status: 'deferred', reason: 'retry', rerouted: { accountId: 'a' } });
    expect(settled.failure).toMatchObject({ class: 'sender_rejected', retryable: true });
  });

  test('the wait that the last account requests is respected before the next round', () => {
    const settled = settle(transient('provider_unavailable', 90_000), message({ failover: last }), NOW, 0);
    expect(settled).toMatchObject({ rerouted: { accountId: 'a' }, nextAttemptAt: NOW + 90_000 });
  });

  test('the wait that the last account requests ends no message that it outlasts and another account may take', () => {
    const asked = transient('provider_unavailable', 90_000);
    const other = settle(asked, message({ failover: last, expiresAt: NOW + 90_000 }), NOW, 0);
    expect(other).toMatchObject({ status: 'deferred', rerouted: { accountId: 'a' }, nextAttemptAt: NOW });
    const alone = { ...last, usable: ['b'] };
    expect(settle(asked, message({ failover: alone, expiresAt: NOW + 90_000 }), NOW, 0)).toMatchObject({
      status: 'failed',
      reason: 'no_retry_left',
    });
  });

  describe('the wait that an earlier account requested', () => {
    const asked = (waitMs: number) => ({
      ...last,
      tried: [{ accountId: 'a', isPermanent: false, class: 'provider_unavailable', waitMs } as const],
    });

    test('is stored with the move to another account', () => {
      const outcome = transient('provider_unavailable', 20_000);
      const { rerouted } = settle(outcome, message({ failover }), NOW, 0);
      expect(rerouted).toEqual({ accountId: 'b', version: 7, skipped: [], retryAfterMs: 20_000 });
    });

    test.each([
      ['is respected when the message comes back to it', 20_000, undefined, 20_000],
      ['is over when the message comes back to it', 0, undefined, 0],
      ['is respected beside that of the last one', 20_000, 5_000, 20_000],
      ['is shorter than that of the last one', 5_000, 20_000, 20_000],
    ])('%s', (_name, waitMs, ofLastMs, delayMs) => {
      const outcome = transient('provider_unavailable', ofLastMs);
      expect(settle(outcome, message({ failover: asked(waitMs) }), NOW, 0)).toMatchObject({
        status: 'deferred',
        rerouted: { accountId: 'a' },
        nextAttemptAt: NOW + delayMs,
      });
    });

    test('ends no message that it outlasts', () => {
      const one = message({ failover: asked(20_000), expiresAt: NOW + 20_000 });
      expect(settle(transient(), one, NOW, 0)).toMatchObject({ status: 'deferred', nextAttemptAt: NOW });
    });
  });

  describe('an account that was passed over because it asked to wait', () => {
    const three = { ...route, steps: ['a', 'b', 'c'].map((accountId) => ({ accountId, weight: 1 })) };
    const passed = {
      ...failover,
      route: three,
      usable: ['a', 'b', 'c'],
      accountId: 'c',
      tried: [
        {
          accountId: 'b',
          isPermanent: false,
          class: 'provider_unavailable',
          waitMs: 20_000,
          isEarlier: true,
        },
        { accountId: 'a', isPermanent: false, class: 'provider_unavailable', waitMs: 0, isEarlier: false },
      ],
    } as const;

    test('is not called in this round', () => {
      expect(settle(transient(), message({ retries: 3, failover: passed }), NOW, 0)).toMatchObject({
        reason: 'retry',
        nextAttemptAt: NOW + 300_000,
        rerouted: { accountId: 'a', skipped: [{ accountId: 'b', reason: 'asked_to_wait' }] },
      });
    });

    test.each([
      ['when its wait is over', 60_000, 20_000],
      ['at once if the message would expire until then', 20_000, 0],
    ])('is called if no time is left for another round: %s', (_name, lifeMs, delayMs) => {
      const one = message({ retries: 3, expiresAt: NOW + lifeMs, failover: passed });
      expect(settle(transient(), one, NOW, 0)).toMatchObject({
        status: 'deferred',
        reason: 'failed_over',
        retries: 3,
        nextAttemptAt: NOW + delayMs,
        rerouted: { accountId: 'b' },
      });
    });
  });

  test('the wait that the last account requested is stored with the move to the first', () => {
    const settled = settle(transient('provider_unavailable', 90_000), message({ failover: last }), NOW, 0);
    expect(settled.rerouted).toMatchObject({ accountId: 'a', retryAfterMs: 90_000 });
  });

  test('a message without time for another round fails and is not rerouted', () => {
    const settled = settle(
      transient(),
      message({ retries: 1, expiresAt: NOW + 5_000, failover: last }),
      NOW,
      0,
    );
    expect(settled).toMatchObject({ status: 'failed', reason: 'no_retry_left', rerouted: null });
  });

  test('a message fails with the last failure if no account is left', () => {
    const none = {
      ...last,
      tried: [{ accountId: 'a', isPermanent: true, class: 'sender_rejected' } as const],
    };
    expect(settle(refused, message({ failover: none }), NOW, 0)).toMatchObject({
      status: 'failed',
      failure: { class: 'sender_rejected', retryable: false },
      rerouted: null,
      final: true,
    });
  });

  test('a failover without a set route records its steps, since it has no route version', () => {
    const byAge = { ...failover, route: { ...route, version: 0 } };
    const { rerouted } = settle(transient(), message({ failover: byAge }), NOW, 0);
    expect(rerouted).toEqual({ accountId: 'b', version: 0, skipped: [], steps: ['a', 'b'] });
  });
});
