import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../text/duration.ts';
import { mondayOf, purgeDay, weekOf } from './purge-day.ts';

const moments = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2100, 0, 1) });
const retentions = fc.integer({ min: 1, max: 365 });

test.each([
  ['the retention ends exactly at midnight', '2026-02-01T00:00:00.000Z', 1, '2026-02-02'],
  ['the retention ends just after midnight', '2026-02-01T00:00:00.001Z', 1, '2026-02-09'],
  ['the retention ends late on a Sunday', '2026-01-31T23:59:59.999Z', 1, '2026-02-02'],
  ['the retention is the longest', '2026-01-01T12:00:00.000Z', 365, '2027-01-04'],
])('purgeDay gives the right Monday if %s', (_name, acceptedAt, days, day) => {
  expect(purgeDay(Date.parse(acceptedAt), days)).toBe(day);
});

test('a record is kept for its retention, and less than a week longer', () => {
  fc.assert(
    fc.property(moments, retentions, (acceptedAt, days) => {
      const day = Date.parse(purgeDay(acceptedAt, days));
      const overAt = acceptedAt + days * DAY_MS;
      expect(new Date(day).getUTCDay()).toBe(1);
      expect(day).toBeGreaterThanOrEqual(overAt);
      expect(day - overAt).toBeLessThan(7 * DAY_MS);
    }),
  );
});

test('weekOf is the inverse of mondayOf', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_095 }), (week) => {
      expect(weekOf(mondayOf(week))).toBe(week);
    }),
  );
});
