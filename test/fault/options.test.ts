import { expect, test } from 'vitest';
import { FAULT_NAMES } from './faults/all.ts';
import { parseOptions } from './options.ts';

test('--only accepts the name of a fault or the prefix of several', () => {
  expect(parseOptions(['--only', 'kill-api'])).toMatchObject({ only: ['kill-api'] });
  expect(parseOptions(['--only', 'vault'])).toMatchObject({
    only: FAULT_NAMES.filter((name) => name.startsWith('vault-')),
  });
});

test('a long run includes the mutants, a short one only with --mutants', () => {
  expect(parseOptions(['--trials', '300'])).toMatchObject({ trials: 300, withMutants: true });
  expect(parseOptions(['--trials', '20'])).toMatchObject({ withMutants: false });
  expect(parseOptions(['--mutants'])).toMatchObject({ trials: 0, withMutants: true });
});

test.each([
  ['--trials', '0'],
  ['--seed', '-1'],
  ['--rate', 'fast'],
  ['--only', 'nothing'],
])('%s %s is refused', (name, value) => {
  expect(() => parseOptions([`${name}=${value}`])).toThrow(name);
});

test('fault names are unique', () => {
  expect(new Set(FAULT_NAMES).size).toBe(FAULT_NAMES.length);
});
