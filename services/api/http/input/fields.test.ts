import { expect, test } from 'vitest';
import { recipientFilter, text } from './fields.ts';

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

test.each([
  [' 15550000001', '+15550000001'],
  ['+15550000001', '+15550000001'],
  ['1 555', '1 555'],
  ['ann news@example.com', 'ann+news@example.com'],
  ['ann a b@example.com', 'ann+a+b@example.com'],
  ['"ann news"@example.com', '"ann news"@example.com'],
  ['Ann <ann@example.com>', 'Ann <ann@example.com>'],
  ['token of a device', 'token of a device'],
])('a recipient in a query may have a bare + that was read as a space: %j', (value, read) => {
  expect(recipientFilter(200).parse(value)).toBe(read);
});
