import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { mayWait } from './may-wait.ts';

test('an owner without a waiting request gets a place, even if a few others take all they can', () => {
  const room = { perOwnerMax: 200, placesMax: 1_000 };
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 8 }), { maxLength: 5_000 }), (asks) => {
      const places = new Map<number, number>();
      let all = 0;
      for (const owner of asks) {
        const own = places.get(owner) ?? 0;
        if (!mayWait(room, own, all)) continue;
        places.set(owner, own + 1);
        all += 1;
      }
      expect(Math.max(0, ...places.values())).toBeLessThanOrEqual(200);
      expect(mayWait(room, 0, all)).toBe(true);
    }),
  );
});

test.each([
  { own: 0, all: 9, may: true },
  { own: 0, all: 10, may: false },
  { own: 3, all: 4, may: true },
  { own: 4, all: 4, may: false },
  { own: 3, all: 7, may: false },
])('an owner with $own of $all taken places may wait: $may', ({ own, all, may }) => {
  expect(mayWait({ perOwnerMax: 4, placesMax: 10 }, own, all)).toBe(may);
});
