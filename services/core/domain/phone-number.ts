import { parsePhoneNumberFromString } from 'libphonenumber-js/min';

const E164 = /^\+[1-9]\d{1,14}$/;

/**
 * The normal form of an E.164 number that could exist. Whether it does exist is not asked: numbers made for tests and
 * fiction do not.
 */
export function normalNumber(text: string): string | undefined {
  if (!E164.test(text)) return undefined;
  const number = parsePhoneNumberFromString(text);
  return number?.isPossible() === true ? number.number : undefined;
}
