import { expect, test } from 'vitest';
import { behindTenants } from './behind-tenants.ts';

test('those that looks have found are known until they are behind no more', () => {
  const behind = behindTenants(() => 0);
  behind.found(['a'], false);
  behind.found(['b'], true);
  const asked = behind.all() ?? [];
  expect(asked).toEqual(['a', 'b']);
  behind.found(['c'], true);
  behind.left(asked, ['b']);
  expect(behind.all()?.toSorted()).toEqual(['b', 'c']);
});

test('nothing is known before a look is complete, nor when that is long ago', () => {
  let now = 0;
  const behind = behindTenants(() => now);
  behind.found(['a'], false);
  expect(behind.all()).toBeUndefined();
  behind.found([], true);
  expect(behind.all()).toEqual(['a']);
  now = 30_001;
  expect(behind.all()).toBeUndefined();
});
