import { expect, test } from 'vitest';
import { shortName } from './short-name.ts';

test.each([
  ['', ''],
  ['a'.repeat(64), 'a'.repeat(64)],
  ['a'.repeat(65), `${'a'.repeat(64)}…`],
  ['😀'.repeat(64), '😀'.repeat(64)],
  ['😀'.repeat(65), `${'😀'.repeat(64)}…`],
])('the short form of %j has at most 64 characters', (name, shown) => {
  expect(shortName(name)).toBe(shown);
});
