import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { HOUR_MS } from '../text/duration.ts';
import {
  deliveryRateOf,
  USAGE_GROUPS,
  USAGE_STATUSES,
  usageDimensionOf,
  usageSpanOf,
  type UsageGroup,
} from './usage-query.ts';

const NOW = Date.parse('2026-03-05T10:20:30.400Z');
const groups = fc.subarray([...USAGE_GROUPS]).map((some) => new Set<UsageGroup>(some));

test('every combination of groups has a dimension, or is refused with the possible ones', () => {
  fc.assert(
    fc.property(groups, (some) => {
      const found = usageDimensionOf(some);
      if (typeof found === 'object') expect(found.refused).toContain('`channel`');
      // Groups that the dimension does not store are refused.
      else if (found === 'key' || found === 'tag')
        expect([...some].every((group) => [found, 'day', 'status'].includes(group))).toBe(true);
      else {
        expect(some.has('tag') || some.has('key')).toBe(false);
        expect(found === 'hour').toBe(some.has('hour'));
      }
    }),
  );
});

test.each([
  [[], 'day'],
  [['channel', 'provider', 'status'], 'day'],
  [['hour', 'provider'], 'hour'],
  [['tag', 'day', 'status'], 'tag'],
  [['key'], 'key'],
] as const)('groups %j are answered from the counts by %s', (some, dimension) => {
  expect(usageDimensionOf(new Set(some))).toBe(dimension);
});

test.each([
  [['day', 'hour']],
  [['tag', 'key']],
  [['tag', 'hour']],
  [['key', 'channel']],
  [['tag', 'provider']],
] as const)('groups %j are refused', (some) => {
  expect(usageDimensionOf(new Set<UsageGroup>(some))).toHaveProperty('refused');
});

test('a span covers the requested time in whole days or hours', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('hour' as const, 'day' as const),
      fc.integer({ min: 1, max: 30 * 24 * HOUR_MS }),
      (unit, length) => {
        const asked = { since: NOW - length, until: NOW };
        const found = usageSpanOf(asked, unit, NOW);
        if ('refused' in found) throw new Error(found.refused);
        const step = unit === 'hour' ? HOUR_MS : 24 * HOUR_MS;
        expect(found.since % step).toBe(0);
        expect(found.until % step).toBe(0);
        expect(found.since).toBeLessThanOrEqual(asked.since);
        expect(found.until).toBeGreaterThanOrEqual(asked.until);
        expect(found.until - found.since).toBeLessThan(length + 2 * step);
      },
    ),
  );
});

test('the default span ends now', () => {
  expect(usageSpanOf({}, 'day', NOW)).toEqual({
    since: Date.parse('2026-02-03T00:00:00Z'),
    until: Date.parse('2026-03-06T00:00:00Z'),
  });
  expect(usageSpanOf({}, 'hour', NOW)).toEqual({
    since: Date.parse('2026-03-04T10:00:00Z'),
    until: Date.parse('2026-03-05T11:00:00Z'),
  });
});

test('an empty span and one that is too long are refused', () => {
  expect(usageSpanOf({ since: NOW, until: NOW }, 'day', NOW)).toMatchObject({ field: 'until' });
  expect(usageSpanOf({ since: NOW + 1 }, 'day', NOW)).toEqual({
    field: 'since',
    refused: 'Must be earlier than now, the default of `until`',
  });
  const before = (days: number) => ({ since: NOW - days * 24 * HOUR_MS });
  expect(usageSpanOf(before(400), 'day', NOW)).toHaveProperty('since');
  expect(usageSpanOf(before(402), 'day', NOW)).toMatchObject({ field: 'since' });
  expect(usageSpanOf(before(31), 'hour', NOW)).toHaveProperty('until');
  expect(usageSpanOf(before(33), 'tag', NOW)).toHaveProperty('until');
  expect(usageSpanOf(before(33), 'hour', NOW)).toMatchObject({ field: 'since' });
});

test('a span begins and ends in years of four digits, or is refused', () => {
  const time = fc.oneof(
    fc.date({
      min: new Date('0001-01-01T00:00:00Z'),
      max: new Date('9999-12-31T23:59:59.999Z'),
      noInvalidDate: true,
    }),
    fc
      .constantFrom('0001-01-01T00:00:00Z', '9999-12-31T00:00:00Z', '9999-12-31T23:59:59.999Z')
      .map((text) => new Date(text)),
  );
  fc.assert(
    fc.property(
      fc.constantFrom('hour' as const, 'day' as const),
      time,
      fc.option(fc.integer({ min: 1, max: 30 * 24 * HOUR_MS }), { nil: undefined }),
      (unit, end, length) => {
        const until = end.getTime();
        const since =
          length === undefined ? undefined : Math.max(until - length, Date.parse('0001-01-01T00:00:00Z'));
        const found = usageSpanOf({ until, since }, unit, NOW);
        if ('refused' in found) return;
        for (const time of [found.since, found.until])
          expect(new Date(time).toISOString()).toMatch(/^(?!0000)\d{4}-/);
      },
    ),
  );
  expect(usageSpanOf({ until: Date.parse('0001-01-10T00:00:00Z') }, 'day', NOW)).toHaveProperty('since');
  const late = { since: Date.parse('9999-12-30T00:00:00Z'), until: Date.parse('9999-12-31T00:00:01Z') };
  expect(usageSpanOf(late, 'day', NOW)).toMatchObject({ field: 'until' });
});

test('the delivery rate counts only delivered and undelivered messages', () => {
  expect(deliveryRateOf({ sent: 5, delivered: 2, undelivered: 1, failed: 3 })).toBe(0.6667);
  expect(deliveryRateOf({ sent: 5, failed: 3 })).toBeNull();
});

test('usage has one status per ended state, and in_progress for all live ones', () => {
  expect(USAGE_STATUSES).toEqual([
    'in_progress',
    'sent',
    'unknown',
    'undelivered',
    'delivered',
    'failed',
    'expired',
    'canceled',
    'suppressed',
  ]);
});
