import { nearName } from '../text/near-name.ts';
import { shortName } from '../text/short-name.ts';

/** A part of a request that had no effect, or will not have the intended one. Returned with the success. */
export type Warning = { readonly field: string; readonly message: string };

/** The warnings of one request, in their order. */
export type Warnings = {
  readonly add: (warning: Warning) => void;
  /** Returns at most `WARNINGS_MAX` warnings, and one more that counts the rest. */
  readonly list: () => readonly Warning[];
};

/** Bounds the answer and its stored copy, whatever was sent. */
export const WARNINGS_MAX = 20;

export function createWarnings(): Warnings {
  const kept: Warning[] = [];
  let more = 0;
  return {
    add(warning) {
      if (kept.length < WARNINGS_MAX) kept.push(warning);
      else more += 1;
    },
    list: () => (more === 0 ? kept : [...kept, { field: 'request', message: `${more} further warnings` }]),
  };
}

/** The warning about an ignored field, and whether its name resembles a known one. */
export type IgnoredField = { readonly warning: Warning; readonly isNear: boolean };

/**
 * Returns the warning about a field that is not read.
 * @param place path of the field's object, with a dot at its end, or empty; contains known names only.
 * @param name as sent; the warning truncates it and replaces characters that are unsafe to print.
 * @param known names that are read in this place, in camelCase.
 */
export function unknownField(
  place: string,
  name: string,
  known: readonly string[],
  kind: 'field' | 'query parameter' | 'setting' = 'field',
): IgnoredField {
  const field = place + printable(name);
  const near = nearName(name, known);
  const message = `Unknown ${kind}, ignored${near === undefined ? '' : `: ${near.hint}`}`;
  return { warning: { field, message }, isNear: near !== undefined };
}

function printable(name: string): string {
  return shortName(name).replace(/[^\p{L}\p{N}_.$@[\]…-]/gu, '?');
}
