import { expect, test } from 'vitest';
import { DependencyError, isAway, type DependencyFault } from './dependency-error.ts';

test.each<[DependencyFault, boolean]>([
  ['deadline', true],
  ['unavailable', true],
  ['refused', false],
  ['rejected', false],
  ['aborted', false],
])('a call that ended as %s means that the dependency is away: %s', (fault, expected) => {
  expect(isAway(new DependencyError('vault', fault, 'failed'))).toBe(expected);
});

test('an error of another kind does not mean that a dependency is away', () => {
  expect([undefined, new Error('failed'), { fault: 'deadline' }].map(isAway)).toEqual([false, false, false]);
});
