import { expect, test } from 'vitest';
import { keyOf, parseKey } from './kube-object.ts';
import { microTime } from './kube-time.ts';

test('a key is parsed into the reference that it was built from', () => {
  for (const ref of [{ namespace: 'acme', name: 'shop' }, { name: 'free' }])
    expect(parseKey(keyOf({ metadata: ref }))).toEqual(ref);
});

test('times have six fractional digits, as leases and events require', () => {
  expect(microTime(Date.UTC(2026, 0, 2, 3, 4, 5, 678))).toBe('2026-01-02T03:04:05.678000Z');
});
