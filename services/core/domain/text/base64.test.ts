import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { base64Bytes, isBase64 } from './base64.ts';

test.each([0, 1, 2, 3, 100, 196_607, 196_608, 196_609, 1_000_000])(
  'base64 of %i bytes is valid and has that length',
  (size) => {
    const text = randomBytes(size).toString('base64');
    expect([isBase64(text), base64Bytes(text)]).toEqual([true, size]);
  },
);

test.each([
  ['no padding', 'YQ'],
  ['incomplete padding', 'YQ='],
  ['padding alone', '===='],
  ['a line break', 'YWFh\nYWFh'],
  ['a space', 'YWFh YWFh'],
  ['the URL-safe alphabet', '_-_-'],
  ['nonzero unused bits', 'YR=='],
  ['text after the padding', 'YQ==YQ=='],
  ['padding at the end of a slice', `${'YWFh'.repeat(65_535)}YQ==${'YWFh'.repeat(10)}`],
  ['other characters', 'é€'],
])('%s is refused', (_name, text) => {
  expect(isBase64(text)).toBe(false);
});

test('10 MiB are checked in less than a second of CPU time', () => {
  const text = randomBytes(10 * 1024 * 1024).toString('base64');
  const before = process.cpuUsage();
  expect(isBase64(text)).toBe(true);
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
});
