import { expect, test } from 'vitest';
import { explainRoute, type LeftAccount, type RouteFacts } from './explain-route.ts';

const facts = (overrides: Partial<RouteFacts> = {}): RouteFacts => ({
  enqueuedAt: '0',
  isPinned: false,
  routeVersion: 3,
  skipped: [],
  left: [],
  accountId: 'a',
  attempts: 1,
  endedBy: null,
  endedAt: null,
  ...overrides,
});
const left = (accountId: string, attempt: number, overrides: Partial<LeftAccount> = {}): LeftAccount => ({
  accountId,
  attempt,
  class: 'provider_unavailable',
  why: null,
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
  ['without one', { routeVersion: null }, ['a chosen oldest_available 1 @0']],
  ['by its sender', { isPinned: true, routeVersion: null }, ['a chosen pinned 1 @0']],
  ['by nobody yet', { accountId: null, attempts: 0, skipped: ['z'] }, ['z skipped disabled - @0']],
])('the account that was chosen %s', (_name, given, lines) => {
  expect(told(facts(given))).toEqual(lines);
});

test('accounts that failed or could not be used come before the one that was chosen in their place', () => {
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

test('an account that is called next has no call yet', () => {
  expect(told(facts({ left: [left('a', 1)], accountId: 'b' }))).toEqual([
    'a failed provider_unavailable 1 @1',
    'b chosen next_in_route - @1',
  ]);
});

test('one that was disabled while its messages waited was not called in vain', () => {
  const given = { left: [left('a', 1, { class: null, why: 'disabled' })], accountId: 'b', attempts: 2 };
  expect(told(facts(given))).toEqual(['a skipped disabled 1 @1', 'b chosen next_in_route 2 @1']);
});

test('one that could not be called for too long is told with the last call through it, if there was any', () => {
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
  // It was never called through the one that it waited for last.
  const ended = { left: [left('a', 1), left('b', 1, { ...waited, attempt: null })], accountId: 'c' };
  expect(told(facts({ ...ended, attempts: 1 }))).toContain('c chosen next_in_route - @1');
});

test('the last one that refused a message has failed as well', () => {
  const given = {
    left: [left('a', 1)],
    accountId: 'b',
    attempts: 2,
    endedBy: 'sender_rejected',
    endedAt: '9',
  } as const;
  expect(told(facts(given))).toEqual(['a failed provider_unavailable 1 @1', 'b failed sender_rejected 2 @9']);
});
