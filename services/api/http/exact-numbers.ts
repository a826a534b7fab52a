import type { z } from 'zod';

/**
 * A rule of maps that are kept as they were sent: JSON has whole numbers that this process cannot hold, and another one
 * must not come back. Names the place, never the number.
 */
export function exactNumbers(context: z.core.ParsePayload<Record<string, unknown>>): void {
  for (const path of inexactPlaces(context.value)) {
    context.issues.push({
      code: 'custom',
      input: context.value,
      path,
      params: { rule: 'precision' },
      message: 'Must be no number beyond 9007199254740991: send it as text',
    });
  }
}

/** Of a value and of what is in it; mostly none. */
function inexactPlaces(value: unknown): readonly PropertyKey[][] {
  // What is beyond all numbers is read as infinite.
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER ? [[]] : NO_PLACES;
  if (typeof value !== 'object' || value === null) return NO_PLACES;
  let places: PropertyKey[][] | undefined;
  for (const name of Object.keys(value)) {
    for (const path of inexactPlaces((value as Record<string, unknown>)[name])) {
      places ??= [];
      places.push([name, ...path]);
    }
  }
  return places ?? NO_PLACES;
}

const NO_PLACES: readonly PropertyKey[][] = [];
