import type { KeyObject } from 'node:crypto';
import { expect, test } from 'vitest';
import { isUsableRsaKey } from './rsa-key.ts';

const key = (asymmetricKeyType: string, modulusLength?: number) =>
  ({ asymmetricKeyType, asymmetricKeyDetails: { modulusLength } }) as KeyObject;

test.each([
  [1_024, false],
  [2_048, true],
  [4_096, true],
  [8_192, false],
  [40_960, false],
])('an RSA key of %i bits is usable: %s', (bits, isUsable) => {
  expect(isUsableRsaKey(key('rsa', bits))).toBe(isUsable);
});

test('a key of another type is not a usable RSA key', () => {
  expect(isUsableRsaKey(key('ec'))).toBe(false);
});
