import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY_MS } from '../text/duration.ts';
import { normalAddress } from './mailbox.ts';
import { secret } from '../storage/secret.ts';
import {
  isUnsubscribeOver,
  readUnsubscribeToken,
  UNSUBSCRIBE_DAYS,
  unsubscribeKey,
  unsubscribeToken,
  unsubscribeUrl,
} from './unsubscribe-token.ts';

const key = unsubscribeKey(secret('a pepper of enough length'));
const other = unsubscribeKey(secret('another pepper of enough length'));

const unsubscribing = fc.record({
  tenantId: fc.uuid(),
  messageId: fc.uuid(),
  address: fc.string({ minLength: 1, maxLength: 254, unit: 'grapheme-ascii' }),
  issuedAt: fc.integer({ min: 0, max: 40_000 }).map((day) => day * DAY_MS),
});

test('a token decodes to its data, and encoding is deterministic', () => {
  fc.assert(
    fc.property(unsubscribing, (about) => {
      const token = unsubscribeToken(key, about);
      expect(token).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(unsubscribeToken(key, about)).toBe(token);
      expect(readUnsubscribeToken(key, token)).toEqual(about);
    }),
  );
});

test.each([
  ['four bytes', '\u{10348}'.repeat(188)],
  ['six bytes in its normal form', '\u0958'.repeat(188)],
  ['the most bytes in its normal form', '\u{1d160}'.repeat(62) + '\u0958'.repeat(126)],
])('a token of the longest address whose signs have %s decodes to its data', (_, local) => {
  const address = normalAddress(`${local}@example.com`) ?? '';
  expect(address).toContain('@example.com');
  const about = { tenantId: crypto.randomUUID(), messageId: crypto.randomUUID(), address, issuedAt: 0 };
  expect(readUnsubscribeToken(key, unsubscribeToken(key, about))).toEqual(about);
});

test('a token with any changed character or another pepper is refused', () => {
  fc.assert(
    fc.property(unsubscribing, fc.nat(), fc.constantFrom('A', 'b', '7', '_'), (about, at, character) => {
      const token = unsubscribeToken(key, about);
      const place = at % token.length;
      const changed = token.slice(0, place) + character + token.slice(place + 1);
      if (changed !== token) expect(readUnsubscribeToken(key, changed)).toBeUndefined();
      expect(readUnsubscribeToken(other, token)).toBeUndefined();
    }),
  );
});

test('any other text is refused', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 2_000 }), (text) => {
      expect(readUnsubscribeToken(key, text)).toBeUndefined();
    }),
  );
  expect(readUnsubscribeToken(key, '')).toBeUndefined();
  expect(readUnsubscribeToken(key, 'A'.repeat(100_000))).toBeUndefined();
});

test('the List-Unsubscribe header with the longest address fits into a mail line', () => {
  const address = `${'a'.repeat(64)}@${'b'.repeat(185)}.com`;
  const about = { tenantId: crypto.randomUUID(), messageId: crypto.randomUUID(), address, issuedAt: 0 };
  const url = unsubscribeUrl('https://api.example.com/', unsubscribeToken(key, about));
  expect(url).toMatch(/^https:\/\/api\.example\.com\/v1\/unsubscribe\/[A-Za-z0-9_-]+$/);
  expect(`List-Unsubscribe: <${url}>`.length).toBeLessThan(998);
});

test('a token is valid for at least thirteen months', () => {
  const accepted = Date.UTC(2026, 0, 31, 23, 59);
  expect(isUnsubscribeOver(Math.floor(accepted / DAY_MS) * DAY_MS, Date.UTC(2027, 1, 28, 23, 59))).toBe(
    false,
  );
  expect(isUnsubscribeOver(0, UNSUBSCRIBE_DAYS * DAY_MS + DAY_MS - 1)).toBe(false);
  expect(isUnsubscribeOver(0, UNSUBSCRIBE_DAYS * DAY_MS + DAY_MS)).toBe(true);
});
