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
      const isSame =
        one.tenant === other.tenant && one.channel === other.channel && one.address === other.address;
      expect(keyOf(one).equals(keyOf(other))).toBe(isSame);
      expect(keyOf(one).equals(keyOf(one, addressKeyRoot(secret('q'.repeat(32)))))).toBe(false);
    }),
  );
});

test('the key of a given address is stable across releases', () => {
  const key = addressKey(root, '00000000-0000-4000-8000-000000000000', 'sms', '+15550000001');
  expect(key.toString('hex')).toBe('2a9923bfe8e679593f43c1636b078dc2');
});
