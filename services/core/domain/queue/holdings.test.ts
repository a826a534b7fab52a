import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createHoldings } from './holdings.ts';

const owner = fc.constantFrom('a', 'b', 'c');

test('the holdings of all owners add up, and an owner that has given all back is none', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(owner, fc.nat({ max: 1_000 }))), (parts) => {
      const holdings = createHoldings();
      for (const [of, amount] of parts) holdings.add(of, amount);
      const sumFor = (name: string): number =>
        parts.reduce((sum, [of, amount]) => sum + (of === name ? amount : 0), 0);
      const sums = ['a', 'b', 'c'].map(sumFor);
      expect(['a', 'b', 'c'].map((name) => holdings.of(name))).toEqual(sums);
      expect(holdings.total).toBe(sums.reduce((sum, one) => sum + one, 0));
      expect(holdings.owners).toBe(sums.filter((one) => one > 0).length);
      for (const [of, amount] of parts) holdings.add(of, -amount);
      expect([holdings.total, holdings.owners, holdings.of('a')]).toEqual([0, 0, 0]);
    }),
  );
});
