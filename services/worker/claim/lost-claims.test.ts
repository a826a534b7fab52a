import { expect, test } from 'vitest';
import { createLostClaims } from './lost-claims.ts';

test('a lost claim is in doubt until the turn that has looked for it ends', () => {
  const lost = createLostClaims();
  lost.add('a');
  lost.add('b');
  lost.found('a');
  expect([lost.has('a'), lost.size]).toEqual([true, 2]);
  lost.endTurn();
  expect([lost.has('a'), lost.has('b'), lost.size]).toEqual([false, true, 1]);
});

test('one that is lost after the look is looked for again', () => {
  const lost = createLostClaims();
  lost.add('a');
  lost.found('a');
  lost.add('a');
  lost.endTurn();
  expect(lost.has('a')).toBe(true);
});
