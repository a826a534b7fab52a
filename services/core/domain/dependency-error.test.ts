import { expect, test } from 'vitest';
import { DependencyError, isAway, type DependencyFault } from './dependency-error.ts';

test.each<[DependencyFault, boolean]>([
  ['deadline', true],
  ['unavailable', true],
  ['refused', false],
  ['rejected', false],
  ['aborted', false],
])('a dependency whose call ended as %s is away: %s', (fault, expected) => {
  expect(isAway(new DependencyError('vault', fault, 'failed'))).toBe(expected);
});

test('what is no failed call to a dependency says nothing about one', () => {
  expect([undefined, new Error('failed'), { fault: 'deadline' }].map(isAway)).toEqual([false, false, false]);
});
