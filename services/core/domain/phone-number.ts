import { parsePhoneNumberFromString } from 'libphonenumber-js/min';
import { LRUCache } from 'lru-cache';

const E164 = /^\+[1-9]\d{1,14}$/;

/** Parsing is the dearest part of reading a message, and each number is asked for more than once. '' is impossible. */
const known = new LRUCache<string, string>({ max: 10_000 });

/**
 * The normal form of an E.164 number that could exist. Whether it does exist is not asked: numbers made for tests and
 * fiction do not.
 */
export function normalNumber(text: string): string | undefined {
  if (!E164.test(text)) return undefined;
  let normal = known.get(text);
  if (normal === undefined) {
    const number = parsePhoneNumberFromString(text);
    normal = number?.isPossible() === true ? number.number : '';
    known.set(text, normal);
  }
  return normal === '' ? undefined : normal;
}
