import { expect, test } from 'vitest';
import { timeField, utcTimeField } from './time-field.ts';

test.each([
  ['2026-12-01T09:00:00Z', '2026-12-01T09:00:00.000Z'],
  // Java's OffsetDateTime writes a time with zero seconds so.
  ['2026-12-01T09:00Z', '2026-12-01T09:00:00.000Z'],
  ['2026-12-01T09:00+05:30', '2026-12-01T03:30:00.000Z'],
  ['2026-12-01T09:00:00.5-01:00', '2026-12-01T10:00:00.500Z'],
])('%s is a time', (text, utc) => {
  expect(timeField().parse(text)).toBe(text);
  expect(utcTimeField().parse(text)).toBe(utc);
});

test.each([
  ['2026-01-01', 'Must be an ISO 8601 time with a time zone'],
  ['2026-12-01T09:00', 'Must be an ISO 8601 time with a time zone'],
  ['2026-12-01T09Z', 'Must be an ISO 8601 time with a time zone'],
  ['2026-12-01T24:00Z', 'Must be an ISO 8601 time with a time zone'],
  ['2026-02-30T00:00Z', 'Must be an ISO 8601 time with a time zone'],
  ['2026-01-01T00:00:00 02:00', 'Must be an ISO 8601 time with a time zone: in a query its + is written %2B'],
  ['2026-01-01T00:00 02:00', 'Must be an ISO 8601 time with a time zone: in a query its + is written %2B'],
  ['0000-01-01T00:00Z', 'Must lie in the years 1 to 9999 of UTC'],
  ['2026-02-30T00:00:00Z', 'Must be an ISO 8601 time with a time zone'],
  ['0000-01-01T00:00:00Z', 'Must lie in the years 1 to 9999 of UTC'],
  ['9999-12-31T23:59:59-01:00', 'Must lie in the years 1 to 9999 of UTC'],
])('%s breaks one rule', (text, rule) => {
  expect(
    timeField()
      .safeParse(text)
      .error?.issues.map(({ message }) => message),
  ).toEqual([rule]);
});
