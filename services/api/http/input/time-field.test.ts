import { expect, test } from 'vitest';
import { timeField } from './time-field.ts';

test.each([
  ['2026-01-01', 'Must be an ISO 8601 time with a time zone'],
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
