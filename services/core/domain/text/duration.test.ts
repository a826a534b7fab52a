import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDuration } from './duration.ts';

test.each([
  ['PT72H', 72 * 3_600_000],
  ['72h', 72 * 3_600_000],
  ['P3D', 72 * 3_600_000],
  ['3d', 72 * 3_600_000],
  ['P1W', 168 * 3_600_000],
  ['P1DT1H1M1S', 90_061_000],
  ['15m', 900_000],
  ['PT0S', 0],
  ['30s', 30_000],
])('%s is %d milliseconds', (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each([
  '',
  'P',
  'PT',
  'P1DT',
  '72',
  'h',
  '-1h',
  '1.5h',
  '1h30m',
  'P1M',
  'P1Y',
  'PT1D',
  'pt1h',
  ' 1h',
  '1h\n',
  '1e3s',
])('%j is not a duration', (text) => {
  expect(parseDuration(text)).toBeUndefined();
});

test('the short and the ISO 8601 form of a duration are equal', () => {
  const units = fc.constantFrom(['s', 'PT#S'], ['m', 'PT#M'], ['h', 'PT#H'], ['d', 'P#D']);
  fc.assert(
    fc.property(fc.nat({ max: 999_999 }), units, (n, [short = '', iso = '']) => {
      const ms = parseDuration(`${n}${short}`);
      expect(ms).toBe(parseDuration(iso.replace('#', String(n))));
      expect(Number.isSafeInteger(ms)).toBe(true);
    }),
  );
});

test('parsing never throws and never gives a negative duration', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const ms = parseDuration(text);
      expect(ms === undefined || ms >= 0).toBe(true);
    }),
  );
});
