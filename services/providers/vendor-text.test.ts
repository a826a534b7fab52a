import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { VENDOR_TEXT_MAX, vendorName, vendorText } from './vendor-text.ts';

const anyText = fc.string({
  unit: fc.constantFrom('a', 'é', '\0', '\ud83d', '\ude00', '😀', '\n'),
  size: 'large',
  maxLength: 600,
});

test('every text of a vendor becomes one that the database accepts, within its limit', () => {
  fc.assert(
    fc.property(anyText, fc.integer({ min: 1, max: 600 }), (text, lengthMax) => {
      for (const stored of [vendorText(text, lengthMax), vendorName(text) ?? '']) {
        expect(stored.isWellFormed()).toBe(true);
        expect(stored).not.toContain('\0');
      }
      expect(vendorText(text, lengthMax).length).toBeLessThanOrEqual(lengthMax);
    }),
  );
});

test.each([
  ['an ordinary text', 'abc', 'abc'],
  ['a NUL', 'a\0b', 'ab'],
  ['a lone surrogate', 'a\ud800b', 'a\ufffdb'],
  ['a longer text', 'abcdefghi', 'abcdefgh'],
  ['a pair at the cut', 'abcdefg😀', 'abcdefg'],
])('%s is stored as far as it can be', (_, text, stored) => {
  expect(vendorText(text, 8)).toBe(stored);
});

test.each([
  ['an id', 'SM1', 'SM1'],
  ['the longest id', 'x'.repeat(VENDOR_TEXT_MAX), 'x'.repeat(VENDOR_TEXT_MAX)],
  ['a longer one', 'x'.repeat(VENDOR_TEXT_MAX + 1), undefined],
  ['one with a NUL', 'a\0', 'a'],
  ['one with half a pair', 'a\ud83d', 'a\ufffd'],
  ['one of nothing that can be stored', '\0', undefined],
  ['an absent one', null, undefined],
])('%s is stored whole or not at all', (_, name, stored) => {
  expect(vendorName(name)).toBe(stored);
});
