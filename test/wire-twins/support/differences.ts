import type { Difference } from './twins.ts';

/** What several SDKs have in common, because they are made of the same parts. */
export const AXIOS_ACCEPT: Difference = {
  at: 'header.accept',
  sdk: 'application/json, text/plain, */*',
  ours: 'application/json',
  why: "The SDK sends axios' own default; the API answers JSON, and we read nothing else.",
};

export const FETCH_ACCEPT: Difference = {
  at: 'header.accept',
  sdk: '*/*',
  ours: 'application/json',
  why: "The SDK sends fetch's own default; the API answers JSON, and we read nothing else.",
};
