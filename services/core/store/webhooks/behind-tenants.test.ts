import { expect, test } from 'vitest';
import { createBehindTenants } from './behind-tenants.ts';

test('tenants that are found behind are listed until they are no longer behind', () => {
  const behind = createBehindTenants(() => 0);
  behind.found(['a'], { isComplete: false });
  behind.found(['b'], { isComplete: true });
  const asked = behind.all() ?? [];
  expect(asked).toEqual(['a', 'b']);
  behind.found(['c'], { isComplete: true });
  behind.left(asked, ['b']);
  expect(behind.all()?.toSorted()).toEqual(['b', 'c']);
});

test('there is no list before a look is complete, or long after it', () => {
  let now = 0;
  const behind = createBehindTenants(() => now);
  behind.found(['a'], { isComplete: false });
  expect(behind.all()).toBeUndefined();
  behind.found([], { isComplete: true });
  expect(behind.all()).toEqual(['a']);
  now = 30_001;
  expect(behind.all()).toBeUndefined();
});
