import { expect, test } from 'vitest';
import * as fc from 'fast-check';
import { addressKey, addressKeyRoot } from './address-key.ts';
import { CHANNELS } from '../message/channel.ts';
import { secret } from '../storage/secret.ts';

const root = addressKeyRoot(secret('p'.repeat(32)));
const named = fc.record({
  tenant: fc.uuid(),
  channel: fc.constantFrom(...CHANNELS),
  address: fc.string({ unit: 'grapheme', minLength: 1 }),
});
type Named = typeof named extends fc.Arbitrary<infer T> ? T : never;
const keyOf = ({ tenant, channel, address }: Named, of = root) => addressKey(of, tenant, channel, address);

test('the same recipient has the same key in every process', () => {
  fc.assert(
    fc.property(named, (one) => {
      expect(keyOf(one)).toEqual(keyOf(one, addressKeyRoot(secret('p'.repeat(32)))));
      expect(keyOf(one)).toHaveLength(16);
    }),
  );
});

test('a different tenant, channel, address or pepper gives a different key', () => {
  fc.assert(
    fc.property(named, named, (one, other) => {
      const comparedOf = ({ channel, address }: Named) =>
        channel === 'email' ? address.toLowerCase() : address;
      const isSame =
        one.tenant === other.tenant && one.channel === other.channel && comparedOf(one) === comparedOf(other);
      expect(keyOf(one).equals(keyOf(other))).toBe(isSame);
      expect(keyOf(one).equals(keyOf(one, addressKeyRoot(secret('q'.repeat(32)))))).toBe(false);
    }),
  );
});

test.each([
  ['email', 'ann@example.com', 'Ann@example.com', true],
  ['email', 'ärmel@example.com', 'ÄRMEL@example.com', true],
  ['email', 'ann@example.com', 'anne@example.com', false],
  // A device token means what its letters say.
  ['push', 'token-a', 'token-A', false],
] as const)('recipients of %s %j and %j have the same key: %j', (channel, address, other, isSame) => {
  const tenant = '00000000-0000-4000-8000-000000000000';
  const key = keyOf({ tenant, channel, address });
  expect(key.equals(keyOf({ tenant, channel, address: other }))).toBe(isSame);
});

test('the key of a given address is stable across releases', () => {
  const key = addressKey(root, '00000000-0000-4000-8000-000000000000', 'sms', '+15550000001');
  expect(key.toString('hex')).toBe('2a9923bfe8e679593f43c1636b078dc2');
});
