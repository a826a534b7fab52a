import type { z } from 'zod';
import { DETAILS_MAX } from './read-input.ts';

/**
 * A rule for maps that are returned as they were sent: JSON can contain integers that a number cannot hold exactly, and a
 * different one must not be returned. The fault names the path, never the number.
 */
export function exactNumbers(context: z.core.ParsePayload<Record<string, unknown>>): void {
  for (const path of inexactPlaces(context.value, DETAILS_MAX)) {
    context.issues.push({
      code: 'custom',
      input: context.value,
      path,
      params: { rule: 'precision' },
      message: 'Must be no number beyond 9007199254740991: send it as text',
    });
  }
}

/** Returns the paths of inexact numbers in a value and below it, at most `most`; usually none. */
function inexactPlaces(value: unknown, most: number): readonly PropertyKey[][] {
  // A number beyond the range of doubles is parsed as Infinity.
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER ? [[]] : NO_PLACES;
  if (typeof value !== 'object' || value === null) return NO_PLACES;
  let places: PropertyKey[][] | undefined;
  for (const name of Object.keys(value)) {
    for (const path of inexactPlaces(
      (value as Record<string, unknown>)[name],
      most - (places?.length ?? 0),
    )) {
      places ??= [];
      places.push([name, ...path]);
    }
    if (places?.length === most) break;
  }
  return places ?? NO_PLACES;
}

const NO_PLACES: readonly PropertyKey[][] = [];
