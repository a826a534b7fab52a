import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createDeliveryIds } from './delivery-id.ts';
import { createMessageIds } from '../storage/message-id.ts';

const KEY = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const ids = createDeliveryIds(KEY);
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const places = fc.record({
  endpoint: fc.oneof(fc.nat(2 ** 22 - 1), fc.constantFrom(0, 1, 2 ** 22 - 1)),
  seq: fc.oneof(
    fc.maxSafeNat().map((n) => n % 2 ** 40),
    fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 40 - 1),
  ),
});

test('an id decodes to the place it encodes, and encoding is deterministic', () => {
  fc.assert(
    fc.property(fc.uuid(), places, (endpointId, place) => {
      const id = ids.encode(endpointId, place);
      expect(id).toMatch(UUID_V4);
      expect(ids.decode(id)).toEqual(place);
      expect(createDeliveryIds(KEY).encode(endpointId, place)).toBe(id);
    }),
    { numRuns: 1_000 },
  );
});

test('ids of consecutive deliveries are unique, and every free bit varies', () => {
  const endpointId = randomUUID();
  const made = Array.from({ length: 10_000 }, (_, seq) => ids.encode(endpointId, { endpoint: 7, seq }));
  expect(new Set(made).size).toBe(made.length);
  const numbers = made.map((id) => BigInt(`0x${id.replaceAll('-', '')}`));
  const ones = numbers.reduce((all, id) => all | id, 0n);
  const zeros = numbers.reduce((all, id) => all & id, (1n << 128n) - 1n);
  // Only the version's four bits (0100) and the variant's two (10) are fixed.
  expect([ones.toString(16), zeros.toString(16)]).toEqual([
    'ffffffffffff4fffbfffffffffffffff',
    '40008000000000000000',
  ]);
});

test('an id of another endpoint, key or kind does not match the place it decodes to', () => {
  const place = { endpoint: 7, seq: 1_042 };
  const endpointId = randomUUID();
  const others = [
    ids.encode(randomUUID(), place),
    createDeliveryIds(Buffer.alloc(16, 1)).encode(endpointId, place),
    createMessageIds(KEY).encode({ seq: 1_042, purgeOn: '2026-02-02' }),
    randomUUID(),
  ];
  for (const id of others) {
    const led = ids.decode(id);
    expect(led).toBeDefined();
    expect(ids.encode(endpointId, led ?? place)).not.toBe(id);
  }
});

test.each([
  '',
  'x',
  '00000000-0000-0000-0000-000000000000',
  ids.encode(randomUUID(), { endpoint: 1, seq: 1 }).toUpperCase(),
])('%j is not a delivery id', (text) => {
  expect(ids.decode(text)).toBeUndefined();
});

test.each([
  { endpoint: -1, seq: 1 },
  { endpoint: 2 ** 22, seq: 1 },
  { endpoint: 1, seq: 2 ** 40 },
  { endpoint: 1.5, seq: 1 },
  { endpoint: 1, seq: Number.NaN },
])('encoding %j is refused', (place) => {
  expect(() => ids.encode(randomUUID(), place)).toThrow(RangeError);
});
