import { expect, test } from 'vitest';
import { parseOptions, type BenchOptions } from '../options.ts';
import { beginGrowth, isGrown, requireSameGrowth } from './growth.ts';

test('every point has its own database, and the largest has the size of --grow-to', () => {
  const { byMessages, byTenants } = beginGrowth(optionsOf('--grow-to', '10000000'), 500);
  expect(byMessages.map(({ messages }) => messages)).toEqual([1_000, 100_000, 1_000_000, 10_000_000]);
  expect(byTenants.map(({ tenants }) => tenants)).toEqual([10, 100, 1_000, 10_000]);
  const names = [...byMessages, ...byTenants].map(({ database }) => database);
  expect(new Set(names).size).toBe(8);
});

test('--only selects parts, and planted data is compared with a database without it', () => {
  const { byMessages, byTenants, byPlanted } = beginGrowth(optionsOf('--only', 'routes,scheduled'), 500);
  expect([byMessages, byTenants]).toEqual([[], []]);
  expect(byPlanted.map(({ planted }) => planted)).toEqual(['nothing', 'scheduled', 'routes']);
  expect(beginGrowth(optionsOf('--only', 'tenants'), 500)).toMatchObject({ byMessages: [], byPlanted: [] });
});

test('growth is complete when every point was visited three times', () => {
  const growth = beginGrowth(optionsOf('--grow-to', '1000'), 500);
  expect(isGrown(growth)).toBe(false);
  const points = [...growth.byMessages, ...growth.byTenants, ...growth.byPlanted];
  for (const { visits } of points) visits.push({}, {}, {});
  expect(isGrown(growth)).toBe(true);
  growth.byTenants[0]?.visits.pop();
  expect(isGrown(growth)).toBe(false);
});

test('a resumed run may have another seed, but no other size', () => {
  const kept = beginGrowth(optionsOf('--grow-to', '1000', '--seed', '1'), 500);
  expect(() => requireSameGrowth(kept, optionsOf('--grow-to', '1000', '--seed', '2'))).not.toThrow();
  expect(() => requireSameGrowth(kept, optionsOf('--grow-to', '2000'))).toThrow('growTo 1000');
});

function optionsOf(...args: string[]): BenchOptions {
  const options = parseOptions(['--growth', ...args]);
  if (options === 'help') throw new Error('the options of the test are wrong');
  return options;
}
