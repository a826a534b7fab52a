import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { BRAKE_WINDOW } from './brake.ts';
import { finalGroups, type RatedMessages } from './final-groups.ts';

const rated = fc.record({
  finals: fc.oneof(fc.nat({ max: 400 }), fc.nat({ max: 5_000 })),
  hardBounces: fc.nat({ max: 100 }),
  complaints: fc.nat({ max: 10 }),
});
const hours = fc.array(rated, { maxLength: 30 });
const total = (of: readonly RatedMessages[], what: keyof RatedMessages) =>
  of.reduce((sum, one) => sum + one[what], 0);

test('there are groups exactly if the hours have a thousand messages, and each group has as many', () => {
  fc.assert(
    fc.property(hours, (all) => {
      const groups = finalGroups(all);
      expect(groups.length > 0).toBe(total(all, 'finals') >= BRAKE_WINDOW);
      for (const { finals } of groups) expect(finals).toBeGreaterThanOrEqual(BRAKE_WINDOW);
    }),
  );
});

test('the groups have every message and report once, and only the oldest hours in a further group', () => {
  fc.assert(
    fc.property(hours, (all) => {
      const groups = finalGroups(all);
      if (groups.length === 0) return;
      for (const what of ['finals', 'hardBounces', 'complaints'] as const) {
        const [last, before] = [groups.at(-1)?.[what] ?? 0, groups.at(-2)?.[what] ?? 0];
        const sum = total(all, what);
        // With a further group, the group before it is part of it.
        expect([total(groups, what), total(groups, what) - before]).toContain(sum);
        expect(last).toBeLessThanOrEqual(sum);
      }
    }),
  );
});

test('a group ends with the hour that makes it large enough', () => {
  const hour = (finals: number, complaints = 0): RatedMessages => ({ finals, hardBounces: 0, complaints });
  expect(finalGroups([hour(999, 1), hour(0, 2), hour(1, 4), hour(5_000, 8), hour(600, 16)])).toEqual([
    hour(1_000, 7),
    hour(5_000, 8),
    hour(5_600, 24),
  ]);
  expect(finalGroups([hour(999, 50)])).toEqual([]);
});
