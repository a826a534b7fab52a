import { expect, test } from 'vitest';
import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { createAccountGates } from './account-gates.ts';

function setup() {
  const state = { now: 10_000_000, ahead: 0, health: 'healthy' as 'healthy' | 'open', blockedUntil: 0 };
  const gates = createAccountGates(
    { health: () => state.health, blockedUntil: () => state.blockedUntil },
    { monotonicMs: () => state.now, epochMs: () => state.now + state.ahead },
  );
  return { state, gates, isOpen: () => gates.closedUntil('a') <= state.now };
}
const ones = (n: number) => Array.from({ length: n }, () => 1);

test('an unknown account is free; its lane may hold more if a claim got all that it asked for', () => {
  const { gates, isOpen } = setup();
  expect([gates.isFree('a'), isOpen()]).toEqual([true, true]);
  expect(gates.claimed('a', 10, ones(10))).toBe(true);
  expect(gates.claimed('a', 10, ones(9))).toBe(false);
  expect(isOpen()).toBe(true);
});

test('an account without tokens is closed until a second after it took the last ones', () => {
  const { state, gates, isOpen } = setup();
  state.now += 400;
  gates.noteLimit('a', 1);
  expect(gates.isFree('a')).toBe(false);
  expect(gates.claimed('a', 50, [1])).toBe(true);
  expect(isOpen()).toBe(false);
  state.now += 1_000;
  expect(isOpen()).toBe(false);
  state.now += 20;
  expect(isOpen()).toBe(true);
  // No message was found: the lane is empty, or other workers took the messages.
  expect(gates.claimed('a', 50, [])).toBe(false);
  expect(isOpen()).toBe(false);
});

test('an account with tokens left stays open', () => {
  const { gates, isOpen } = setup();
  gates.noteLimit('a', 100);
  expect(gates.claimed('a', 50, [2, 3])).toBe(false);
  expect(isOpen()).toBe(true);
  expect(gates.claimed('a', 50, ones(50))).toBe(true);
  expect(isOpen()).toBe(true);
  // Other workers have taken the rest.
  expect(gates.claimed('a', 50, [])).toBe(true);
  expect(isOpen()).toBe(false);
});

test('the tokens of all claims within a second count, and those of earlier ones do not', () => {
  const { state, gates, isOpen } = setup();
  gates.noteLimit('a', 10);
  expect([gates.claimed('a', 50, ones(5)), isOpen()]).toEqual([false, true]);
  state.now += 300;
  expect([gates.claimed('a', 50, ones(3)), isOpen()]).toEqual([true, false]);
  state.now += 719;
  expect(isOpen()).toBe(false);
  // A second after the first claim, its five tokens are free again, and those of the second one are not.
  state.now += 1;
  expect(isOpen()).toBe(true);
  expect([gates.claimed('a', 50, ones(4)), isOpen()]).toEqual([false, true]);
  expect([gates.claimed('a', 50, [1]), isOpen()]).toEqual([true, false]);
  expect(gates.closedUntil('a')).toBe(state.now - 720 + 1_020);
});

test('an account whose tokens were taken one by one opens when an eighth of its limit is free again', () => {
  const { state, gates } = setup();
  gates.noteLimit('a', 80);
  const begun = state.now;
  for (let i = 0; i < 79; i++) {
    gates.claimed('a', 1, [1]);
    state.now += 1;
  }
  expect(gates.claimed('a', 50, [1])).toBe(true);
  expect(gates.closedUntil('a')).toBe(begun + 9 + 1_020);
});

test('a lane that a burst has emptied is looked at at most three times before its account counts as idle', () => {
  for (const limit of [1, 2, 3, 8, 10, 80, 1_000]) {
    const { state, gates } = setup();
    gates.noteLimit('a', limit);
    let mayHoldMore = false;
    for (let taken = 0; taken < limit && !mayHoldMore; taken++) {
      mayHoldMore = gates.claimed('a', 50, [1]);
      state.now += 900 / limit;
    }
    let looks = 0;
    while (mayHoldMore) {
      looks += 1;
      state.now = Math.max(state.now, gates.closedUntil('a'));
      mayHoldMore = gates.claimed('a', 50, []);
    }
    expect({ limit, looks }).toEqual({ limit, looks: Math.min(looks, 3) });
  }
});

test('an unchanged rate limit keeps its spent tokens, and a removed one frees the account', () => {
  const { gates } = setup();
  gates.noteLimit('a', 1);
  gates.claimed('a', 50, [1]);
  gates.noteLimit('a', 1);
  expect(gates.claimed('a', 50, [])).toBe(true);
  gates.noteLimit('a', null);
  expect(gates.isFree('a')).toBe(true);
  gates.noteLimit('a', 1);
  gates.forget('a');
  expect(gates.isFree('a')).toBe(true);
});

test('a blocked account is closed until its probe, for which one message is claimed', () => {
  const { state, gates, isOpen } = setup();
  state.health = 'open';
  state.blockedUntil = state.now + 5_000;
  expect([gates.isFree('a'), isOpen()]).toEqual([false, false]);
  state.now += 5_000;
  expect([isOpen(), gates.slots('a', 64)]).toEqual([true, 1]);
  // The gate stays closed until the breaker knows of the probe.
  expect(isOpen()).toBe(false);
  state.health = 'healthy';
  gates.forget('a');
  expect([isOpen(), gates.isFree('a'), gates.slots('a', 64)]).toEqual([true, true, 64]);
});

test('an account without a credential admits one message at a time until one succeeds', () => {
  const { state, gates, isOpen } = setup();
  const of = { action: 'send', accountId: 'a' } as const;
  const unavailable = (begunAt: number, waitMs: number) =>
    gates.noteEnd(of, { reason: 'credentials_unavailable', nextAttemptAt: state.now + waitMs }, begunAt);
  const sent = (begunAt: number) => gates.noteEnd(of, { reason: null, nextAttemptAt: null }, begunAt);
  const before = state.now - 1;
  expect([sent(before), unavailable(before, 2_000), unavailable(before, 1_000)]).toEqual([
    false,
    false,
    false,
  ]);
  expect([gates.isFree('a'), isOpen()]).toEqual([false, false]);
  // A call that had the credential before it became unavailable says nothing about it.
  expect([sent(before), isOpen()]).toEqual([false, false]);
  state.now += 2_000;
  expect([isOpen(), gates.slots('a', 64), isOpen()]).toEqual([true, 1, false]);
  // Nor is its rate used up, of which the route of a message that moves on would tell.
  expect(gates.whyClosed('a')).toBeUndefined();
  unavailable(state.now, 3_000);
  state.now += 2_999;
  expect(isOpen()).toBe(false);
  state.now += 1;
  expect([isOpen(), gates.slots('a', 64), sent(state.now)]).toEqual([true, 1, true]);
  expect([isOpen(), gates.isFree('a'), gates.slots('a', 64)]).toEqual([true, true, 64]);
});

test.each([
  ['of a lost worker', 'lost', 'ambiguous_attempt'],
  ['that was not made because of shutdown', 'send', 'shutdown'],
  ['of which no settlement is known', 'send', null],
] as const)(
  'an attempt %s does not open the gate of an account without a credential',
  (_, action, reason) => {
    const { state, gates, isOpen } = setup();
    const wait = { reason: 'credentials_unavailable', nextAttemptAt: state.now + 2_000 } as const;
    gates.noteEnd({ action: 'send', accountId: 'a' }, wait, state.now);
    const settlement = reason === null ? null : { reason, nextAttemptAt: null };
    expect(gates.noteEnd({ action, accountId: 'a' }, settlement, state.now)).toBe(false);
    expect(isOpen()).toBe(false);
    gates.forget('a');
    expect([isOpen(), gates.isFree('a')]).toEqual([true, true]);
  },
);

test('a simulator is free even if a breaker is open', () => {
  const { state, gates } = setup();
  state.health = 'open';
  expect(gates.isFree(NO_ACCOUNT)).toBe(true);
});

test('whyClosed() returns the reason, for used-up tokens also for a second after the gate opened', () => {
  const { state, gates } = setup();
  expect([gates.whyClosed('a'), gates.whyClosed(NO_ACCOUNT)]).toEqual([undefined, undefined]);
  gates.noteLimit('a', 1);
  gates.claimed('a', 50, [1]);
  expect(gates.whyClosed('a')).toBe('rate_used_up');
  // Open again for the next tokens.
  state.now += 1_020;
  expect([gates.closedUntil('a') <= state.now, gates.whyClosed('a')]).toEqual([true, 'rate_used_up']);
  state.now += 1_000;
  expect(gates.whyClosed('a')).toBeUndefined();
  state.health = 'open';
  expect(gates.whyClosed('a')).toBe('breaker_open');
});

test('a clock that was ahead and is set back keeps no gate closed', () => {
  const HOUR_MS = 3_600_000;
  const { state, gates, isOpen } = setup();
  state.ahead = HOUR_MS;
  gates.noteLimit('a', 1);
  gates.claimed('a', 50, [1]);
  const settlement = {
    reason: 'credentials_unavailable',
    nextAttemptAt: state.now + HOUR_MS + 5_000,
  } as const;
  gates.noteEnd({ action: 'send', accountId: 'a' }, settlement, state.now);
  state.ahead = 0;
  state.now += 4_999;
  expect(isOpen()).toBe(false);
  state.now += 1;
  expect(isOpen()).toBe(true);
  expect(gates.whyClosed('a')).toBeUndefined();
});
