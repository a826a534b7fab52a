import { expect, test } from 'vitest';
import { RESERVED_SLUGS, SLUG } from './slug.ts';

test.each(['a', '7', 'a-b', 'a--b', 'shop-24', 'a'.repeat(63)])('%s is a slug', (text) => {
  expect(SLUG.test(text)).toBe(true);
});

test.each(['', '-', '-a', 'a-', 'A', 'a_b', 'a.b', 'a b', 'ä', 'a\n', 'a'.repeat(64)])(
  '%j is no slug',
  (text) => {
    expect(SLUG.test(text)).toBe(false);
  },
);

test('reserved names are slugs, so that each of them keeps a tenant from its name', () => {
  expect(RESERVED_SLUGS).toContain('admin');
  for (const name of RESERVED_SLUGS) expect(name).toMatch(SLUG);
});
