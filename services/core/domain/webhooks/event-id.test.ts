import { randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createEventIds, type EventPlace } from './event-id.ts';
import { mondayOf } from '../storage/purge-day.ts';

const KEY = Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex');
const ids = createEventIds(KEY);
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** The bits of a UUIDv4 that may vary. */
const FREE_BITS = 122;

const below = (end: number) =>
  fc.oneof(
    fc.maxSafeNat().map((n) => n % end),
    fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, end / 2, end - 1),
  );
const places: fc.Arbitrary<EventPlace> = fc.record({
  seq: below(2 ** 50),
  purgeOn: fc.integer({ min: 0, max: 4_095 }).map(mondayOf),
  number: below(2 ** 53),
});

function idOf(place: EventPlace, of = ids): string {
  return of.encode([place])[0] ?? '';
}

function bitsOf(id: string): bigint {
  return BigInt(`0x${id.replaceAll('-', '')}`);
}

function differing(a: string, b: string): number {
  return (bitsOf(a) ^ bitsOf(b)).toString(2).replaceAll('0', '').length;
}

test('an id decodes to the place it encodes, and is the same in each process', () => {
  fc.assert(
    fc.property(places, (place) => {
      const id = idOf(place);
      expect(id).toMatch(UUID_V4);
      expect(ids.decode(id)).toEqual(place);
      expect(idOf(place, createEventIds(Buffer.from(KEY)))).toBe(id);
    }),
    { numRuns: 1_000 },
  );
});

test('a UUID that decodes to a place is the id of that place', () => {
  fc.assert(
    fc.property(fc.uuid({ version: 4 }), (id) => {
      const place = ids.decode(id);
      expect(place === undefined || idOf(place) === id).toBe(true);
    }),
    { numRuns: 5_000 },
  );
});

test('ids encoded in bulk equal those encoded one by one', () => {
  fc.assert(
    fc.property(fc.array(places, { maxLength: 20 }), (many) => {
      expect(ids.encode(many)).toEqual(many.map((place) => idOf(place)));
    }),
    { numRuns: 200 },
  );
});

test('every free bit of an id varies', () => {
  const made = ids
    .encode(Array.from({ length: 200 }, (_, number) => ({ seq: 7, purgeOn: '2026-02-02', number })))
    .map(bitsOf);
  const ones = made.reduce((all, id) => all | id, 0n);
  const zeros = made.reduce((all, id) => all & id, (1n << 128n) - 1n);
  // Only the version's four bits (0100) and the variant's two (10) are fixed.
  expect([ones.toString(16), zeros.toString(16)]).toEqual([
    'ffffffffffff4fffbfffffffffffffff',
    '40008000000000000000',
  ]);
});

test.each([
  { neighbours: 'events of a message', step: (n: number) => ({ seq: 7, purgeOn: '2026-02-02', number: n }) },
  { neighbours: 'messages', step: (n: number) => ({ seq: n, purgeOn: '2026-02-02', number: 0 }) },
  { neighbours: 'weeks', step: (n: number) => ({ seq: 7, purgeOn: mondayOf(n), number: 0 }) },
])('ids of neighbouring $neighbours differ in half of their bits', ({ step }) => {
  const made = ids.encode(Array.from({ length: 2_000 }, (_, n) => step(n)));
  const counts = made.slice(1).map((id, n) => differing(id, made[n] ?? ''));
  const mean = counts.reduce((sum, n) => sum + n, 0) / counts.length;
  // For fair coins the mean is 61, with a standard deviation of 5.5, and of 0.12 for the mean of so many.
  expect(Math.abs(mean - FREE_BITS / 2)).toBeLessThan(1);
  expect(Math.min(...counts)).toBeGreaterThan(30);
  expect(Math.max(...counts)).toBeLessThan(92);
});

test('a change of one bit of a place flips each bit of its id half of the time', () => {
  const flips = Array.from({ length: FREE_BITS }, () => 0);
  const free = Array.from({ length: 128 }, (_, bit) => bit).filter(
    (bit) => !(bit >= 76 && bit < 80) && bit !== 62 && bit !== 63,
  );
  const turns = 400;
  for (let n = 0; n < turns; n += 1) {
    const number = n * 2;
    const [a = '', b = ''] = ids.encode([
      { seq: 7, purgeOn: '2026-02-02', number },
      { seq: 7, purgeOn: '2026-02-02', number: number + 1 },
    ]);
    const turned = bitsOf(a) ^ bitsOf(b);
    for (const [i, bit] of free.entries()) flips[i] = (flips[i] ?? 0) + Number((turned >> BigInt(bit)) & 1n);
  }
  // Six standard deviations of a fair coin.
  for (const count of flips) expect(Math.abs(count - turns / 2)).toBeLessThan(60);
});

test('with another key, an id decodes to another place or, nearly always, to none', () => {
  const others = createEventIds(randomBytes(16));
  const made = ids.encode(
    Array.from({ length: 2_000 }, (_, n) => ({ seq: 123_456, purgeOn: '2026-02-02', number: n })),
  );
  const found = made.flatMap((id) => others.decode(id) ?? []);
  expect(found.filter((place) => place.seq === 123_456)).toEqual([]);
  // One of 128 is expected; ten times that is no chance.
  expect(found.length).toBeLessThan(156);
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
])('%j is not an event id', (text) => {
  expect(ids.decode(text)).toBeUndefined();
});

test.each([
  { seq: -1, purgeOn: '2026-02-02', number: 0 },
  { seq: 2 ** 50, purgeOn: '2026-02-02', number: 0 },
  { seq: 1.5, purgeOn: '2026-02-02', number: 0 },
  { seq: 1, purgeOn: '2026-02-03', number: 0 },
  { seq: 1, purgeOn: '2023-12-25', number: 0 },
  { seq: 1, purgeOn: mondayOf(4_096), number: 0 },
  { seq: 1, purgeOn: '2026-02-02', number: -1 },
  { seq: 1, purgeOn: '2026-02-02', number: 2 ** 53 },
  { seq: 1, purgeOn: '2026-02-02', number: 0.5 },
])('encoding event $number of message $seq of $purgeOn is refused', (place) => {
  expect(() => ids.encode([place])).toThrow(RangeError);
});
