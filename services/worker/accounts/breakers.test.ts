import { expect, test } from 'vitest';
import { MINUTE_MS } from '#core/domain/text/duration.ts';
import { createBreakers } from './breakers.ts';

function setup() {
  let time = 0;
  const told: string[] = [];
  const breakers = createBreakers(() => time);
  breakers.onHealth((accountId, provider, health) => told.push(`${accountId} ${provider} ${health}`));
  return { breakers, told, pass: (ms: number) => (time += ms) };
}

test('an account whose credential is refused before its first call is counted under its provider', () => {
  const { breakers, told } = setup();
  breakers.open('a', 'twilio');
  expect(breakers.counts()).toEqual([{ labels: { provider: 'twilio', state: 'open' }, value: 1 }]);
  breakers.reset('a');
  expect(breakers.counts()).toEqual([]);
  expect(told).toEqual(['a twilio open', 'a twilio healthy']);
});

test('accounts are counted by provider and state', () => {
  const { breakers, pass } = setup();
  for (const id of ['a', 'b', 'c']) breakers.open(id, 'twilio');
  breakers.open('d', 'smtp');
  pass(10_000);
  expect(breakers.enter('a', 'twilio')).toBe('probe');
  const counts = breakers.counts().map(({ labels, value }) => `${labels.provider} ${labels.state} ${value}`);
  expect(counts.toSorted()).toEqual(['smtp open 1', 'twilio open 2', 'twilio probing 1']);
});

test('an open account is no longer counted once no messages wait for it', () => {
  const { breakers, pass } = setup();
  for (let i = 0; i < 25; i++) breakers.note('a', 'twilio', { fault: true, isProbe: false });
  pass(4 * MINUTE_MS);
  expect(breakers.counts()).toHaveLength(1);
  pass(2 * MINUTE_MS);
  expect(breakers.counts()).toEqual([]);
  expect(breakers.health('a')).toBe('open');
  // Another message for the account arrives.
  expect(breakers.enter('a', 'twilio')).toBe('probe');
  expect(breakers.counts()).toHaveLength(1);
});

test('the number of accounts in memory is bounded; one evicted while open counts as healthy', () => {
  const { breakers, told } = setup();
  breakers.open('first', 'twilio');
  for (let i = 0; i < 50_000; i++) breakers.note(`other ${i}`, 'smtp', { fault: false, isProbe: false });
  expect(told).toEqual(['first twilio open', 'first twilio healthy']);
  expect(breakers.health('first')).toBe('healthy');
});

test('an account is known to have been closed from its recovery on', () => {
  const { breakers, pass } = setup();
  expect(breakers.closedForMs('a')).toBe(Infinity);
  breakers.open('a', 'twilio');
  pass(MINUTE_MS);
  expect(breakers.closedForMs('a')).toBe(0);
  breakers.enter('a', 'twilio');
  breakers.note('a', 'twilio', { fault: false, isProbe: true });
  expect(breakers.closedForMs('a')).toBe(0);
  pass(1_000);
  expect(breakers.closedForMs('a')).toBe(1_000);
});
