import { expect, test } from 'vitest';
import { pepperFingerprint } from './pepper-fingerprint.ts';
import { secret } from './secret.ts';

const PEPPER = 'a pepper that is long enough for the configuration';

test('fingerprints are equal for the same pepper alone', () => {
  const own = pepperFingerprint(secret(PEPPER));
  expect(own).toMatch(/^[\da-f]{32}$/);
  expect(pepperFingerprint(secret(PEPPER))).toBe(own);
  expect(pepperFingerprint(secret(`${PEPPER}!`))).not.toBe(own);
});
