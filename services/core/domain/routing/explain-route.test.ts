import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { explainRoute, type LeftAccount, type RouteFacts } from './explain-route.ts';
import { FAILURE_CLASSES } from '../sending/failure.ts';
import { SKIPPED_REASONS, type SkippedReason } from './skipped-account.ts';

const facts = (overrides: Partial<RouteFacts> = {}): RouteFacts => ({
  enqueuedAt: '0',
  isPinned: false,
  routeVersion: 3,
  skipped: [],
  left: [],
  ambiguous: null,
  accountId: 'a',
  attempts: 1,
  sentAttempt: null,
  endedBy: null,
  endedAt: null,
  ...overrides,
});
const left = (accountId: string, attempt: number, overrides: Partial<LeftAccount> = {}): LeftAccount => ({
  accountId,
  attempt,
  class: 'provider_unavailable',
  why: null,
  to: `after ${accountId}`,
  at: `${attempt}`,
  skipped: [],
  ...overrides,
});
const told = (of: RouteFacts) =>
  explainRoute(of).map(
    ({ accountId, verdict, reason, attempt, at }) =>
      `${accountId} ${verdict} ${reason} ${attempt ?? '-'} @${at}`,
  );

test.each([
  ['by a route', {}, ['a chosen in_route 1 @0']],
  ['without a route', { routeVersion: null }, ['a chosen oldest_available 1 @0']],
  ['of a pinned account', { isPinned: true, routeVersion: null }, ['a chosen pinned 1 @0']],
  [
    'while no account is chosen',
    { accountId: null, attempts: 0, skipped: ['z'] },
    ['z skipped disabled - @0'],
  ],
])('explains the choice %s', (_name, given, lines) => {
  expect(told(facts(given))).toEqual(lines);
});

test('an account that was not called has no attempt', () => {
  const given = facts({
    left: [left('a', 1, { attempt: null, class: null, why: 'breaker_open' })],
    accountId: 'b',
  });
  expect(explainRoute({ ...given, attempts: 0 })).toEqual([
    { accountId: 'a', verdict: 'skipped', reason: 'breaker_open', at: '1' },
    { accountId: 'b', verdict: 'chosen', reason: 'next_in_route', at: '1' },
  ]);
});

test('lists an account again if it is skipped for another reason, or after a call', () => {
  const skips = (reason: SkippedReason) => ({ skipped: [{ accountId: 'b', reason }] });
  const rounds = [
    left('a', 1, skips('invalid')),
    left('c', 2, skips('invalid')),
    left('a', 3, skips('disabled')),
  ];
  const given = facts({ left: rounds, accountId: 'd', attempts: 4 });
  expect(told(given).filter((line) => line.startsWith('b'))).toEqual([
    'b skipped invalid - @1',
    'b skipped disabled - @3',
  ]);
  const called = [left('a', 1, skips('invalid')), left('b', 2), left('a', 3, skips('invalid'))];
  expect(told({ ...given, left: called }).filter((line) => line.startsWith('b'))).toEqual([
    'b skipped invalid - @1',
    'b failed provider_unavailable 2 @2',
    'b skipped invalid - @3',
  ]);
  const again = [left('a', 1), left('b', 2, { class: null, why: 'disabled' })];
  expect(told({ ...given, skipped: ['b'], left: again }).filter((line) => line.startsWith('b'))).toEqual([
    'b skipped disabled - @0',
    'b skipped disabled 2 @2',
  ]);
});

test('lists each call of an account that failed twice for the same reason', () => {
  const twice = facts({ left: [left('a', 1), left('b', 2), left('a', 3)], accountId: 'b', attempts: 4 });
  expect(told(twice)).toEqual([
    'a failed provider_unavailable 1 @1',
    'b failed provider_unavailable 2 @2',
    'a failed provider_unavailable 3 @3',
    'b chosen next_in_route 4 @3',
  ]);
});

test('lists accounts that failed or were skipped before the one that replaced them', () => {
  const given = {
    skipped: ['z'],
    left: [left('a', 2, { skipped: [{ accountId: 'b', reason: 'disabled' }] }), left('c', 3)],
    accountId: 'd',
    attempts: 4,
  };
  expect(told(facts(given))).toEqual([
    'z skipped disabled - @0',
    'a failed provider_unavailable 2 @2',
    'b skipped disabled - @2',
    'c failed provider_unavailable 3 @3',
    'd chosen next_in_route 4 @3',
  ]);
});

test('lists the next account without an attempt before its first call', () => {
  expect(told(facts({ left: [left('a', 1)], accountId: 'b' }))).toEqual([
    'a failed provider_unavailable 1 @1',
    'b chosen next_in_route - @1',
  ]);
});

test('lists an account that was disabled while the message waited as skipped', () => {
  const given = { left: [left('a', 1, { class: null, why: 'disabled' })], accountId: 'b', attempts: 2 };
  expect(told(facts(given))).toEqual(['a skipped disabled 1 @1', 'b chosen next_in_route 2 @1']);
});

test('lists an account that was unavailable for too long with its last attempt, if any', () => {
  const waited = { class: null, why: 'breaker_open' } as const;
  const given = {
    left: [
      left('a', 1, {
        ...waited,
        attempt: null,
        at: '5',
        skipped: [{ accountId: 'b', reason: 'rate_used_up' }],
      }),
      left('c', 2, { ...waited, why: 'invalid' }),
    ],
    accountId: 'd',
    attempts: 3,
  };
  expect(told(facts(given))).toEqual([
    'a skipped breaker_open - @5',
    'b skipped rate_used_up - @5',
    'c skipped invalid 2 @2',
    'd chosen next_in_route 3 @2',
  ]);
  // The message was never sent through the account that it waited for last.
  const ended = { left: [left('a', 1), left('b', 1, { ...waited, attempt: null })], accountId: 'c' };
  expect(told(facts({ ...ended, attempts: 1 }))).toContain('c chosen next_in_route - @1');
});

test('lists the last account that refused the message as failed', () => {
  const given = {
    left: [left('a', 1)],
    accountId: 'b',
    attempts: 2,
    endedBy: 'sender_rejected',
    endedAt: '9',
  } as const;
  expect(told(facts(given))).toEqual(['a failed provider_unavailable 1 @1', 'b failed sender_rejected 2 @9']);
});

test('lists accounts that were skipped for a retry of the same account after it, each once', () => {
  const passed = { to: 'a', skipped: [{ accountId: 'b', reason: 'disabled' }] } as const;
  const stays = { left: [left('a', 1, passed), left('a', 2, passed)], attempts: 3 };
  expect(told(facts(stays))).toEqual(['a chosen in_route 3 @0', 'b skipped disabled - @1']);
  const ended = { left: [left('a', 1, passed)], endedBy: 'sender_rejected', endedAt: '9' } as const;
  expect(told(facts(ended))).toEqual(['a failed sender_rejected 1 @9', 'b skipped disabled - @1']);
  const later = { left: [left('a', 1, passed), left('a', 2)], accountId: 'c', attempts: 3 };
  expect(told(facts(later))).toEqual([
    'b skipped disabled - @1',
    'a failed provider_unavailable 2 @2',
    'c chosen next_in_route 3 @2',
  ]);
});

test('lists accounts that were not called before an ambiguous call as skipped', () => {
  const given = {
    left: [left('a', 1, { skipped: [{ accountId: 'd', reason: 'invalid' }] })],
    ambiguous: { at: '2', accounts: ['a', 'b', 'c', 'd'] },
    accountId: 'b',
    attempts: 2,
  };
  expect(told(facts(given))).toEqual([
    'a failed provider_unavailable 1 @1',
    'd skipped invalid - @1',
    'b chosen next_in_route 2 @1',
    'c skipped ambiguous_elsewhere - @2',
  ]);
});

test('lists an account without a receipt in time as failed, also if the message returns to it', () => {
  const silent = left('a', 1, { class: null, why: 'receipt_timeout', to: 'b', at: '5' });
  expect(told(facts({ left: [silent], accountId: 'b', attempts: 2 }))).toEqual([
    'a failed receipt_timeout 1 @5',
    'b chosen next_in_route 2 @5',
  ]);
  const refused = left('b', 2, { class: 'sender_rejected', to: 'a', at: '6' });
  const returned = { accountId: 'a', attempts: 2, sentAttempt: 1 };
  expect(told(facts({ ...returned, left: [silent, refused] }))).toEqual([
    'a failed receipt_timeout 1 @5',
    'b failed sender_rejected 2 @6',
    'a chosen sent_before 1 @6',
  ]);
  const expired = {
    ...left('b', 2, { to: 'a', at: '6' }),
    attempt: null,
    class: null,
    why: 'expired',
  } as const;
  expect(told(facts({ ...returned, attempts: 1, left: [silent, expired] }))).toEqual([
    'a failed receipt_timeout 1 @5',
    'b skipped expired - @6',
    'a chosen sent_before 1 @6',
  ]);
});

describe('for any routing history', () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd');
  const skipped = fc.uniqueArray(fc.record({ accountId: id, reason: fc.constantFrom(...SKIPPED_REASONS) }), {
    selector: ({ accountId }) => accountId,
  });
  const step = fc.record({
    accountId: id,
    to: id,
    attempt: fc.option(fc.nat({ max: 20 })),
    class: fc.option(fc.constantFrom(...FAILURE_CLASSES)),
    why: fc.option(fc.constantFrom(...SKIPPED_REASONS, 'receipt_timeout')),
    at: fc.constantFrom('1', '2', '3'),
    skipped,
  });
  const stored: fc.Arbitrary<RouteFacts> = fc.record({
    enqueuedAt: fc.constant('0'),
    isPinned: fc.boolean(),
    routeVersion: fc.option(fc.nat()),
    skipped: fc.uniqueArray(id),
    left: fc.array(step, { maxLength: 6 }),
    ambiguous: fc.option(fc.record({ at: fc.constant('2'), accounts: fc.uniqueArray(id) })),
    accountId: fc.option(id),
    attempts: fc.nat({ max: 20 }),
    sentAttempt: fc.option(fc.integer({ min: 1, max: 20 }), { freq: 2 }),
    endedBy: fc.option(fc.constantFrom(...FAILURE_CLASSES)),
    endedAt: fc.option(fc.constant('9')),
  });

  test('each considered account is listed, and no other', () => {
    fc.assert(
      fc.property(stored, (of) => {
        const known = new Set([
          ...of.skipped,
          ...of.left.flatMap((one) => [
            ...(one.to === one.accountId ? [] : [one.accountId]),
            ...one.skipped.map(({ accountId }) => accountId),
          ]),
          ...(of.ambiguous?.accounts ?? []),
          ...(of.accountId === null ? [] : [of.accountId]),
        ]);
        expect(new Set(explainRoute(of).map(({ accountId }) => accountId))).toEqual(known);
      }),
    );
  });

  test('at most the current account is chosen, and every other verdict has a valid reason', () => {
    fc.assert(
      fc.property(stored, (of) => {
        const considered = explainRoute(of);
        const chosen = considered.filter(({ verdict }) => verdict === 'chosen');
        expect(chosen.length).toBeLessThanOrEqual(1);
        for (const one of chosen) expect(one.accountId).toBe(of.accountId);
        for (const one of considered) {
          const reasons: readonly string[] =
            one.verdict === 'failed' ? [...FAILURE_CLASSES, 'receipt_timeout'] : SKIPPED_REASONS;
          if (one.verdict !== 'chosen') expect(reasons).toContain(one.reason);
          if (one.reason === 'ambiguous_elsewhere' && !('attempt' in one))
            expect(one.verdict).toBe('skipped');
        }
      }),
    );
  });

  test('equal facts give equal explanations', () => {
    fc.assert(
      fc.property(stored, (of) => {
        expect(explainRoute(structuredClone(of))).toEqual(explainRoute(of));
      }),
    );
  });
});
