import { Metadata, parsePhoneNumberFromString, type MetadataJson } from 'libphonenumber-js/core';
import metadata from 'libphonenumber-js/min/metadata';

const E164 = /^\+[1-9]\d{1,14}$/;
const CALLING_CODE_DIGITS_MAX = 3;

/**
 * Metadata with only the main country of each calling code. Whether a number is possible depends on its calling code alone;
 * finding out to which of 25 countries a +1 number belongs takes eight times as long.
 */
const MAIN_COUNTRIES: MetadataJson = {
  ...metadata,
  country_calling_codes: Object.fromEntries(
    Object.entries(metadata.country_calling_codes).map(([code, countries]) => [code, countries.slice(0, 1)]),
  ),
};

/** The numbering rules of a calling code. */
type Plan = {
  readonly codeLength: number;
  readonly lengths: ReadonlySet<number>;
  /** Lengths that only other countries of the calling code use, for a few of their numbers. */
  readonly rareLengths: ReadonlySet<number>;
  /** The national prefix that some people write after the calling code: the only case in which the length is not enough. */
  readonly nationalPrefix: RegExp | undefined;
};

const NUMBERING_PLANS: ReadonlyMap<string, Plan> = readPlans();

/**
 * Returns the normal form of a possible E.164 number; undefined for others. It need not be assigned: numbers for tests and
 * fiction are not.
 */
export function normalNumber(text: string): string | undefined {
  if (!E164.test(text)) return undefined;
  const plan = planOf(text);
  if (plan === undefined) return undefined;
  const national = text.slice(1 + plan.codeLength);
  if (plan.nationalPrefix?.test(national) === true) return parsedNumber(text);
  if (plan.lengths.has(national.length)) return text;
  return plan.rareLengths.has(national.length) ? parsedNumber(text) : undefined;
}

/** Returns the same from the library's parser, at twenty times the cost. */
export function parsedNumber(text: string): string | undefined {
  return possibleNumber(text, MAIN_COUNTRIES) ?? possibleNumber(text, metadata);
}

function possibleNumber(text: string, countries: MetadataJson): string | undefined {
  const number = parsePhoneNumberFromString(text, countries);
  return number?.isPossible() === true ? number.number : undefined;
}

/** Returns the plan of the number's calling code; no calling code is a prefix of another. */
function planOf(text: string): Plan | undefined {
  for (let digits = 1; digits <= CALLING_CODE_DIGITS_MAX; digits++) {
    const plan = NUMBERING_PLANS.get(text.slice(1, 1 + digits));
    if (plan !== undefined) return plan;
  }
  return undefined;
}

function readPlans(): Map<string, Plan> {
  const countries: Readonly<Record<string, readonly string[]>> = metadata.country_calling_codes;
  const codes = [
    ...Object.keys(countries),
    ...Object.keys((metadata as { nonGeographic?: object }).nonGeographic ?? {}),
  ];
  return new Map(
    codes.map((code) => {
      const main = numberingPlan(code);
      const lengths = new Set(main.possibleLengths());
      const others = (countries[code] ?? []).flatMap((country) => numberingPlan(country).possibleLengths());
      const prefix = main.nationalPrefixForParsing();
      const plan: Plan = {
        codeLength: code.length,
        lengths,
        rareLengths: new Set(others).difference(lengths),
        nationalPrefix: prefix === undefined || prefix === '' ? undefined : new RegExp(`^(?:${prefix})`),
      };
      return [code, plan];
    }),
  );
}

/** Returns the library's plan of a country, or of the main country of a calling code. */
function numberingPlan(countryOrCode: string): {
  possibleLengths(): number[];
  nationalPrefixForParsing(): string | undefined;
} {
  const selected = new Metadata(metadata).selectNumberingPlan(countryOrCode as never);
  return (selected as unknown as { numberingPlan: ReturnType<typeof numberingPlan> }).numberingPlan;
}
