import { expect } from 'vitest';
import type { Difference } from './twins.ts';

/** Differences that several SDKs share, because they use the same libraries. */
const OURS = { at: 'header.accept', ours: 'application/json' };

export const AXIOS_ACCEPT: Difference = {
  ...OURS,
  sdk: 'application/json, text/plain, */*',
  why: "The SDK sends axios' own default; the API answers JSON, and we read nothing else.",
};

export const FETCH_ACCEPT: Difference = {
  ...OURS,
  sdk: '*/*',
  why: "The SDK sends fetch's own default; the API answers JSON, and we read nothing else.",
};

export const NO_ACCEPT: Difference = {
  ...OURS,
  why: 'The SDK says nothing of what it reads; the API answers JSON.',
};

/** Returns the difference of a time claim in a token, which each side sets from its own clock. */
export function ownTime(claim: 'iat' | 'exp', place = 'header.authorization'): Difference {
  const any = expect.any(Number) as unknown;
  return { at: `${place}.claims.${claim}`, sdk: any, ours: any, why: 'Each goes by its own clock.' };
}
