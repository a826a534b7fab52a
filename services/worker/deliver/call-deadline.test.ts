import { expect, test } from 'vitest';
import { parseEnvironment } from '#core/platform/config/config.ts';
import { findProvider } from '#providers/registry.ts';
import { workerEnvironment } from '../config.ts';
import { callDeadlineMs } from './call-deadline.ts';

test.each([
  { own: undefined, limits: { deadlineMs: 15_000, leaseMs: 60_000 }, ms: 15_000 },
  { own: 40_000, limits: { deadlineMs: 15_000, leaseMs: 60_000 }, ms: 40_000 },
  { own: 40_000, limits: { deadlineMs: 15_000, leaseMs: 30_000 }, ms: 20_000 },
  { own: 40_000, limits: { deadlineMs: 60_000, leaseMs: 120_000 }, ms: 60_000 },
  { own: 40_000, limits: { deadlineMs: 1_500, leaseMs: 5_000 }, ms: 3_333 },
])('a provider that asks for $own ms gets $ms ms of $limits', ({ own, limits, ms }) => {
  expect(callDeadlineMs(own === undefined ? {} : { deadlineMs: own }, limits)).toBe(ms);
});

test('by default, the SMTP deadline exceeds 35 s, and the shutdown grace exceeds that deadline', () => {
  const { delivery } = parseEnvironment({ delivery: workerEnvironment.delivery }, {});
  const smtp = findProvider('smtp');
  expect(smtp).toBeDefined();
  const ms = callDeadlineMs(smtp ?? {}, delivery.settings);
  // Exchange withholds the answer to a mail for up to 30 s.
  expect(ms).toBeGreaterThan(35_000);
  expect(delivery.shutdownGraceMs).toBeGreaterThan(ms);
});
