import { Metadata, parsePhoneNumberFromString, type MetadataJson } from 'libphonenumber-js/core';
import metadata from 'libphonenumber-js/min/metadata';

const E164 = /^\+[1-9]\d{1,14}$/;
const CALLING_CODE_DIGITS_MAX = 3;

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

/** What decides about the numbers of a calling code. */
type Plan = {
  readonly codeLength: number;
  readonly lengths: ReadonlySet<number>;
  /** What some people write between calling code and number: the only case that needs more than a look at the length. */
  readonly nationalPrefix: RegExp | undefined;
};

const PLANS: ReadonlyMap<string, Plan> = readPlans();

/**
 * The normal form of an E.164 number that could exist. Whether it does exist is not asked: numbers made for tests and
 * fiction do not.
 */
export function normalNumber(text: string): string | undefined {
  if (!E164.test(text)) return undefined;
  const plan = planOf(text);
  if (plan === undefined) return undefined;
  const national = text.slice(1 + plan.codeLength);
  if (plan.nationalPrefix?.test(national) === true) return parsedNumber(text);
  return plan.lengths.has(national.length) ? text : undefined;
}

/** The same by the library's parser, at twenty times the cost. */
export function parsedNumber(text: string): string | undefined {
  const number = parsePhoneNumberFromString(text, MAIN_COUNTRIES);
  return number?.isPossible() === true ? number.number : undefined;
}

/** No calling code is the beginning of another. */
function planOf(text: string): Plan | undefined {
  for (let digits = 1; digits <= CALLING_CODE_DIGITS_MAX; digits++) {
    const plan = PLANS.get(text.slice(1, 1 + digits));
    if (plan !== undefined) return plan;
  }
  return undefined;
}

function readPlans(): Map<string, Plan> {
  const codes = [
    ...Object.keys(metadata.country_calling_codes),
    ...Object.keys((metadata as { nonGeographic?: object }).nonGeographic ?? {}),
  ];
  return new Map(
    codes.map((code) => {
      const { numberingPlan } = new Metadata(MAIN_COUNTRIES).selectNumberingPlan(
        code as never,
      ) as unknown as {
        numberingPlan: { possibleLengths(): number[]; nationalPrefixForParsing(): string | undefined };
      };
      const prefix = numberingPlan.nationalPrefixForParsing();
      const plan: Plan = {
        codeLength: code.length,
        lengths: new Set(numberingPlan.possibleLengths()),
        nationalPrefix: prefix === undefined || prefix === '' ? undefined : new RegExp(`^(?:${prefix})`),
      };
      return [code, plan];
    }),
  );
}
