import { assert, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { smsSegments } from './segments.ts';

describe('the SMS segments', () => {
  test.each([
    ['an empty text', '', 'GSM-7', 1],
    ['160 letters', 'a'.repeat(160), 'GSM-7', 1],
    ['161 letters', 'a'.repeat(161), 'GSM-7', 2],
    ['306 letters', 'a'.repeat(306), 'GSM-7', 2],
    ['307 letters', 'a'.repeat(307), 'GSM-7', 3],
    ['80 escaped characters', '€'.repeat(80), 'GSM-7', 1],
    ['81 escaped characters', '€'.repeat(81), 'GSM-7', 2],
    [
      '152 letters, then an escaped character that does not fit',
      `${'a'.repeat(152)}€${'a'.repeat(152)}`,
      'GSM-7',
      3,
    ],
    ['70 letters outside the alphabet', 'я'.repeat(70), 'UCS-2', 1],
    ['71 letters outside the alphabet', 'я'.repeat(71), 'UCS-2', 2],
    ['134 letters outside the alphabet', 'я'.repeat(134), 'UCS-2', 2],
    ['135 letters outside the alphabet', 'я'.repeat(135), 'UCS-2', 3],
    ['35 emoji', '😀'.repeat(35), 'UCS-2', 1],
    ['36 emoji', '😀'.repeat(36), 'UCS-2', 2],
    ['67 emoji, 33 to a part', '😀'.repeat(67), 'UCS-2', 3],
    ['every accent of the alphabet', 'èéùìòÇØøÅåÆæßÉÄÖÑÜäöñüà¿¡§¤ΔΦΓΛΩΠΨΣΘΞ', 'GSM-7', 1],
  ])('are counted for %s', (_, text, encoding, segments) => {
    expect(smsSegments(text)).toEqual({ encoding, segments });
  });

  test.each(['ç', '’', '“', '–', '…', '`', '\t', '\u00a0', '😀'])(
    'are UCS-2 because of one %j',
    (character) => {
      expect(smsSegments(`a${character}`).encoding).toBe('UCS-2');
    },
  );
});

test('the number of segments is within the bounds given by the length of the text', () => {
  assert(
    property(string({ unit: 'binary', maxLength: 2_000 }), (text) => {
      const { encoding, segments } = smsSegments(text);
      const escapes = encoding === 'GSM-7' ? (text.match(/[\f^{}\\[~\]|€]/g)?.length ?? 0) : 0;
      const units = text.length + escapes;
      const [single, part] = encoding === 'GSM-7' ? [160, 153] : [70, 67];
      const isShort = units <= single;
      expect(segments).toBeGreaterThanOrEqual(isShort ? 1 : Math.ceil(units / part));
      // At most one unit of each part stays unused before a character of two units.
      expect(segments).toBeLessThanOrEqual(isShort ? 1 : Math.ceil(units / (part - 1)));
    }),
  );
});
