import { expect, test } from 'vitest';
import { createBehindTenants } from './behind-tenants.ts';

test('tenants that are found behind are listed until they are no longer behind', () => {
  const behind = createBehindTenants(() => 0);
  behind.found(['a'], false);
  behind.found(['b'], true);
  const asked = behind.all() ?? [];
  expect(asked).toEqual(['a', 'b']);
  behind.found(['c'], true);
  behind.left(asked, ['b']);
  expect(behind.all()?.toSorted()).toEqual(['b', 'c']);
});

test('there is no list before a look is complete, or long after it', () => {
  let now = 0;
  const behind = createBehindTenants(() => now);
  behind.found(['a'], false);
  expect(behind.all()).toBeUndefined();
  behind.found([], true);
  expect(behind.all()).toEqual(['a']);
  now = 30_001;
  expect(behind.all()).toBeUndefined();
});
