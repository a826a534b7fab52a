import { expect, test } from 'vitest';
import { text } from './fields.ts';

test.each([
  ['a', false],
  ['ab', true],
  ['\u{1f600}', false],
  ['\u{1f600}\u{1f600}', true],
  ['\u{1f600}'.repeat(4), true],
  ['\u{1f600}'.repeat(5), false],
  ['abcde', false],
])('text(2, 4) counts code points, not UTF-16 units: %j', (value, isValid) => {
  expect(text(2, 4).safeParse(value).success).toBe(isValid);
});
