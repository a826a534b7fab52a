import { expect, test } from 'vitest';
import { parseOptions } from './options.ts';

test('all items run by default, and named items once each and in order', () => {
  expect(parseOptions([])).toMatchObject({ items: [1, 2, 3, 4, 5, 6], rate: 40, keeps: false });
  expect(parseOptions(['--items', '3, 1,3', '--seed', '7'])).toMatchObject({ items: [1, 3], seed: 7 });
});

test.each([
  ['--items', '7'],
  ['--items', 'one'],
  ['--rate', '0'],
  ['--seed', '-1'],
])('%s %s is refused', (name, value) => {
  expect(() => parseOptions([`${name}=${value}`])).toThrow(`${name} must be`);
});
