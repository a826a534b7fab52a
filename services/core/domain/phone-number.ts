import { parsePhoneNumberFromString, type MetadataJson } from 'libphonenumber-js/core';
import metadata from 'libphonenumber-js/min/metadata';
import { LRUCache } from 'lru-cache';

const E164 = /^\+[1-9]\d{1,14}$/;

/**
 * Each calling code with its main country alone. Whether a number is possible is a question of its calling code; to
 * find out which of 25 countries a +1 number belongs to takes eight times as long.
 */
const MAIN_COUNTRIES: MetadataJson = {
  ...metadata,
  country_calling_codes: Object.fromEntries(
    Object.entries(metadata.country_calling_codes).map(([code, countries]) => [code, countries.slice(0, 1)]),
  ),
};

/** A number is looked at twice within a request, and recipients come back. Null: not a number that could exist. */
const recent = new LRUCache<string, { readonly normal: string | null }>({ max: 10_000 });

/**
 * The normal form of an E.164 number that could exist. Whether it does exist is not asked: numbers made for tests and
 * fiction do not.
 */
export function normalNumber(text: string): string | undefined {
  if (!E164.test(text)) return undefined;
  let known = recent.get(text);
  if (known === undefined) {
    const number = parsePhoneNumberFromString(text, MAIN_COUNTRIES);
    known = { normal: number?.isPossible() === true ? number.number : null };
    recent.set(text, known);
  }
  return known.normal ?? undefined;
}
