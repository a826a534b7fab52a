import { createSecretKey } from 'node:crypto';
import { assert, constantFrom, property, string } from 'fast-check';
import { expect, test } from 'vitest';
import {
  deriveKeySecret,
  formatServiceKey,
  hashKeySecret,
  KEY_MODES,
  keyIdOf,
  keyPrefix,
  newKeyId,
  parseServiceKey,
} from './service-key.ts';

const subkey = createSecretKey(Buffer.alloc(32, 7));
const secretOf = (nonce: string) => deriveKeySecret(subkey, 'key', Buffer.from(nonce));

test('a formatted service key parses to the same key', () => {
  assert(
    property(constantFrom(...KEY_MODES), string(), (mode, nonce) => {
      const key = { mode, keyId: newKeyId(), secret: secretOf(nonce) };
      const text = formatServiceKey(key);
      expect(text).toMatch(/^dsp_(live|test)_[0-9A-Za-z]{16}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
      expect(text.startsWith(keyPrefix(mode, key.keyId))).toBe(true);
      expect(parseServiceKey(text)).toEqual(key);
    }),
  );
});

test('the text of a given key is the same in every release', () => {
  const text = 'dsp_live_0123456789abcdef_WEiXg3mcUifZoB4UxS1QUkI2z91blslpHeAm9moGsiL_11HkrQ';
  const key = { mode: 'live', keyId: '0123456789abcdef', secret: secretOf('n') } as const;
  expect(formatServiceKey(key)).toBe(text);
  expect(parseServiceKey(text)).toEqual(key);
});

test('the id of a key is found in any text that begins like one', () => {
  for (const mode of KEY_MODES) expect(keyIdOf(`dsp_${mode}_0123456789abcdef_rest`)).toBe('0123456789abcdef');
  expect(keyIdOf('dsp_live_0123')).toBe('0123');
});

test('a service key with any changed character is refused', () => {
  const text = formatServiceKey({ mode: 'live', keyId: newKeyId(), secret: secretOf('n') });
  for (let i = 0; i < text.length; i++) {
    const other = text[i] === 'A' ? 'B' : 'A';
    expect(parseServiceKey(text.slice(0, i) + other + text.slice(i + 1))).toBeNull();
  }
});

test.each(['', 'dsp_live_', 'msg_live_a_b_c', ' dsp_live_x', 'A'.repeat(10_000)])(
  '%s is not a service key',
  (text) => {
    expect(parseServiceKey(text)).toBeNull();
  },
);

test('a derived secret depends on its subkey, key id and nonce', () => {
  expect(secretOf('a')).toBe(secretOf('a'));
  expect(secretOf('a')).not.toBe(secretOf('b'));
  expect(deriveKeySecret(subkey, 'other', Buffer.from('a'))).not.toBe(secretOf('a'));
  expect(deriveKeySecret(createSecretKey(Buffer.alloc(32, 8)), 'key', Buffer.from('a'))).not.toBe(
    secretOf('a'),
  );
});

test('a hash depends on the pepper', () => {
  expect(hashKeySecret(subkey, 's')).not.toEqual(hashKeySecret(createSecretKey(Buffer.alloc(32, 8)), 's'));
});
