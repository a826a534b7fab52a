import { assert, constantFrom, integer, property, stringMatching } from 'fast-check';
import { parsePhoneNumberFromString } from 'libphonenumber-js/min';
import metadata from 'libphonenumber-js/min/metadata';
import { expect, test } from 'vitest';
import { normalNumber, parsedNumber } from './phone-number.ts';

test.each([
  ['+15550000001', '+15550000001'],
  ['+447700900123', '+447700900123'],
  ['+4402079460000', '+442079460000'],
  ['+390612345678', '+390612345678'],
  ['+8835100012345', '+8835100012345'],
  // Canada has numbers of seven digits after +1; the United States do not.
  ['+13100000', '+13100000'],
])('%s has the normal form %s', (text, normal) => {
  expect(normalNumber(text)).toBe(normal);
});

test.each([
  '',
  '15550000001',
  '+0155',
  '+1 555 000 0001',
  '+12',
  '+1555000000',
  '+99912345678',
  '+1555000000199999',
  '+15550000',
])('%s is not a possible number', (text) => {
  expect(normalNumber(text)).toBeUndefined();
});

test('every number that libphonenumber considers possible is accepted', () => {
  assert(
    property(integer({ min: 1, max: 999 }), stringMatching(/^\d{4,12}$/), (code, rest) => {
      const number = parsePhoneNumberFromString(`+${code}${rest}`);
      if (number?.isPossible() !== true || `+${code}${rest}`.length > 16) return;
      expect(normalNumber(`+${code}${rest}`)).toBe(number.number);
    }),
    { numRuns: 2_000 },
  );
});

test('the length check agrees with the full parser for every calling code', () => {
  const codes = [...Object.keys(metadata.country_calling_codes), '800', '870', '883', '979', '210', '999'];
  for (const code of codes) {
    assert(
      property(
        constantFrom('', '0', '00', '1', '8', '01', '15', '9'),
        stringMatching(/^\d{1,12}$/),
        (prefix, rest) => {
          const text = `+${code}${prefix}${rest}`;
          if (text.length <= 16) expect([text, normalNumber(text)]).toEqual([text, parsedNumber(text)]);
        },
      ),
      { numRuns: 100 },
    );
  }
});
