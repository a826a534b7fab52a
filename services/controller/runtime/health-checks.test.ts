import { expect, test } from 'vitest';
import { MINUTE_MS } from '#core/domain/text/duration.ts';
import { createHealthChecks, type HealthCheckOptions } from './health-checks.ts';

const reflector = (kind: string, isSynced = true, silentMs = 0) => ({
  cache: { kind, isSynced: () => isSynced } as HealthCheckOptions['reflectors'][number]['cache'],
  silentMs: () => silentMs,
});

function checks(options: Partial<HealthCheckOptions>) {
  return createHealthChecks({ reflectors: [], isEnding: () => false, ...options });
}

test('ready when all caches are synced, without leading', async () => {
  const { ready } = checks({ reflectors: [reflector('Tenant'), reflector('Plan')] });
  expect(await ready()).toEqual({ failing: [] });
});

test('readiness names what fails: caches, additional checks, shutdown', async () => {
  const reflectors = [reflector('Tenant', false), reflector('Plan')];
  const ready = () => ({ failing: ['schema'] });
  expect(await checks({ reflectors, ready }).ready()).toEqual({ failing: ['cache_tenant', 'schema'] });
  expect(await checks({ reflectors, isEnding: () => true }).ready()).toEqual({ failing: ['ending'] });
});

test.each([
  ['a cache had a recent answer', [reflector('Tenant', true, 9 * MINUTE_MS)], false, true],
  [
    'a cache had no answer for ten minutes',
    [reflector('Plan'), reflector('Tenant', true, 11 * MINUTE_MS)],
    false,
    false,
  ],
  ['a leader did not end although its lease ran out', [reflector('Tenant')], true, false],
])('liveness when %s', (_what, reflectors, isOverdue, isLive) => {
  expect(checks({ reflectors, elector: { isOverdue: () => isOverdue } }).live()).toBe(isLive);
});
