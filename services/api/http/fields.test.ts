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
])('a text of 2 to 4 code points: %j', (value, isValid) => {
  expect(text(2, 4).safeParse(value).success).toBe(isValid);
});
