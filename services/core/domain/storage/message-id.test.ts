import { randomBytes, randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMessageIds } from './message-id.ts';
import { mondayOf } from './purge-day.ts';

const ids = createMessageIds(Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'));
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const seqs = fc.oneof(
  fc.maxSafeNat().map((n) => n % 2 ** 50),
  fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 49, 2 ** 50 - 1),
);
const places = fc.record({ seq: seqs, purgeOn: fc.integer({ min: 0, max: 4_095 }).map(mondayOf) });

test('an id decodes to the place it encodes', () => {
  fc.assert(
    fc.property(places, (place) => {
      expect(ids.decode(ids.encode(place))).toEqual(place);
    }),
    { numRuns: 1_000 },
  );
});

test('ids are UUIDv4, and no two are the same', () => {
  const made = Array.from({ length: 10_000 }, (_, seq) => ids.encode({ seq, purgeOn: '2026-02-02' }));
  expect(made.filter((id) => !UUID_V4.test(id))).toEqual([]);
  expect(new Set(made).size).toBe(made.length);
});

test('every free bit of an id varies, even for the same place', () => {
  const made = Array.from({ length: 200 }, () =>
    BigInt(`0x${ids.encode({ seq: 7, purgeOn: '2026-02-02' }).replaceAll('-', '')}`),
  );
  const ones = made.reduce((all, id) => all | id, 0n);
  const zeros = made.reduce((all, id) => all & id, (1n << 128n) - 1n);
  // Only the version's four bits (0100) and the variant's two (10) are fixed.
  expect([ones.toString(16), zeros.toString(16)]).toEqual([
    'ffffffffffff4fffbfffffffffffffff',
    '40008000000000000000',
  ]);
});

test('every UUIDv4 decodes to a place', () => {
  for (let n = 0; n < 1_000; n += 1) {
    const place = ids.decode(randomUUID());
    expect(place?.seq).toBeLessThan(2 ** 50);
    expect(place?.purgeOn).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  }
});

test.each([
  '',
  'x',
  '00000000-0000-0000-0000-000000000000',
  'b7e23ec2-9f0a-1b1c-8d2e-3f4a5b6c7d8e',
  'b7e23ec2-9f0a-4b1c-cd2e-3f4a5b6c7d8e',
  'B7E23EC2-9F0A-4B1C-8D2E-3F4A5B6C7D8E',
  'b7e23ec29f0a4b1c8d2e3f4a5b6c7d8e',
  'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e\n',
])('%j is not a message id', (text) => {
  expect(ids.decode(text)).toBeUndefined();
});

test.each([
  { seq: -1, purgeOn: '2026-02-02' },
  { seq: 2 ** 50, purgeOn: '2026-02-02' },
  { seq: 1.5, purgeOn: '2026-02-02' },
  { seq: Number.NaN, purgeOn: '2026-02-02' },
  { seq: 1, purgeOn: '2026-02-03' },
  { seq: 1, purgeOn: '2023-12-25' },
  { seq: 1, purgeOn: 'today' },
  { seq: 1, purgeOn: mondayOf(4_096) },
])('encoding $seq of $purgeOn is refused', (place) => {
  expect(() => ids.encode(place)).toThrow(RangeError);
});

test('with another key, an id decodes to another place', () => {
  const place = { seq: 123_456, purgeOn: '2026-02-02' };
  expect(createMessageIds(randomBytes(16)).decode(ids.encode(place))).not.toEqual(place);
});
