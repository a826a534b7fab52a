import { expect, test } from 'vitest';
import { shortName } from './short-name.ts';

test.each([
  ['', ''],
  ['a'.repeat(64), 'a'.repeat(64)],
  ['a'.repeat(65), `${'a'.repeat(64)}…`],
  ['😀'.repeat(64), '😀'.repeat(64)],
  ['😀'.repeat(65), `${'😀'.repeat(64)}…`],
])('a name of %j', (name, shown) => {
  expect(shortName(name)).toBe(shown);
});
