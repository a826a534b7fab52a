import { expect, test } from 'vitest';
import { parseOptions, type BenchOptions } from '../options.ts';
import { beginGrowth, isGrown, requireSameGrowth } from './growth.ts';

test('every point has a database of its own, the largest as large as was asked for', () => {
  const { byMessages, byTenants } = beginGrowth(optionsOf('--grow-to', '10000000'), 500);
  expect(byMessages.map(({ messages }) => messages)).toEqual([1_000, 100_000, 1_000_000, 10_000_000]);
  expect(byTenants.map(({ tenants }) => tenants)).toEqual([10, 100, 1_000, 10_000]);
  const names = [...byMessages, ...byTenants].map(({ database }) => database);
  expect(new Set(names).size).toBe(8);
});

test('it is grown when every point was visited three times', () => {
  const growth = beginGrowth(optionsOf('--grow-to', '1000'), 500);
  expect(isGrown(growth)).toBe(false);
  for (const { visits } of [...growth.byMessages, ...growth.byTenants]) visits.push({}, {}, {});
  expect(isGrown(growth)).toBe(true);
  growth.byTenants[0]?.visits.pop();
  expect(isGrown(growth)).toBe(false);
});

test('whoever goes on may have another seed, and no other sizes', () => {
  const kept = beginGrowth(optionsOf('--grow-to', '1000', '--seed', '1'), 500);
  expect(() => requireSameGrowth(kept, optionsOf('--grow-to', '1000', '--seed', '2'))).not.toThrow();
  expect(() => requireSameGrowth(kept, optionsOf('--grow-to', '2000'))).toThrow('growTo 1000');
});

function optionsOf(...args: string[]): BenchOptions {
  const options = parseOptions(['--growth', ...args]);
  if (options === 'help') throw new Error('the options of the test are wrong');
  return options;
}
