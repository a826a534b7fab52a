import { expect } from 'vitest';
import type { Difference } from './twins.ts';

/** What several SDKs have in common, because they are made of the same parts. */
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

/** A time in a token that each side signs for its own clock. */
export function ownTime(claim: 'iat' | 'exp', place = 'header.authorization'): Difference {
  const any = expect.any(Number) as unknown;
  return { at: `${place}.claims.${claim}`, sdk: any, ours: any, why: 'Each goes by its own clock.' };
}
