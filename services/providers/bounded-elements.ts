import { z } from 'zod';

/**
 * Maximum number of elements in the lists of one call. SendGrid's events have over 300 bytes, so its largest batch of 4 MiB has
 * fewer than 14,000, and Meta reports on at most a thousand messages in a call. Without a limit, the shortest elements fit
 * into such a body a million times, and validating each blocks the event loop for seconds.
 */
export const ELEMENTS_MAX = 20_000;

/** A list whose elements are not validated, so that they can be counted first. */
export const RawList = z.custom<readonly unknown[]>(Array.isArray);

/**
 * Returns the objects in all the lists, or undefined if the lists have more than `most` elements together. Other elements
 * count too, and are left out because no report consists of one.
 */
export function boundedObjects(
  lists: readonly (readonly unknown[])[],
  most = ELEMENTS_MAX,
): object[] | undefined {
  const count = lists.reduce((sum, { length }) => sum + length, 0);
  return count > most ? undefined : lists.flat().filter(isObject);
}

/** Like `z.array`, but refuses a list of more than `most` elements before it validates any. */
export function boundedList<T extends z.ZodType>(element: T, most = ELEMENTS_MAX) {
  return RawList.refine(({ length }) => length <= most, { abort: true }).pipe(z.array(element));
}

/** Reads only the first element of a list. The list may be empty. */
export function firstOfList<T extends z.ZodType>(element: T) {
  return RawList.transform((list) => list.slice(0, 1)).pipe(z.array(element));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
