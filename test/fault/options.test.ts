import { expect, test } from 'vitest';
import { FAULT_NAMES } from './faults/all.ts';
import { parseOptions } from './options.ts';

test('a name stands for itself, a beginning for all that begin so', () => {
  expect(parseOptions(['--only', 'kill-api'])).toMatchObject({ only: ['kill-api'] });
  expect(parseOptions(['--only', 'vault'])).toMatchObject({
    only: FAULT_NAMES.filter((name) => name.startsWith('vault-')),
  });
});

test('a long run takes the mutants along, a short one only where they are asked for', () => {
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

test('no two faults have the same name', () => {
  expect(new Set(FAULT_NAMES).size).toBe(FAULT_NAMES.length);
});
