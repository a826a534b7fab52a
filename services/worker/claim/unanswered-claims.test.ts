import { expect, test } from 'vitest';
import { createUnansweredClaims } from './unanswered-claims.ts';

test('an unanswered claim is in doubt until the turn that has searched for it ends', () => {
  const lost = createUnansweredClaims();
  lost.add('a');
  lost.add('b');
  lost.found('a');
  expect([lost.has('a'), lost.size]).toEqual([true, 2]);
  lost.endTurn();
  expect([lost.has('a'), lost.has('b'), lost.size]).toEqual([false, true, 1]);
});

test('one that comes after the search is searched for again', () => {
  const lost = createUnansweredClaims();
  lost.add('a');
  lost.found('a');
  lost.add('a');
  lost.endTurn();
  expect(lost.has('a')).toBe(true);
});
