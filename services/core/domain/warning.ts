import { nearName } from './near-name.ts';

/** Something in a request that had no effect, or will not have the one that was meant. Told beside the success. */
export type Warning = { readonly field: string; readonly message: string };

/** The warnings of one request, in the order in which they came. */
export type Warnings = {
  readonly add: (warning: Warning) => void;
  /** At most `WARNINGS_MAX`, and one more that counts the rest. */
  readonly list: () => readonly Warning[];
};

/** An answer and what is stored of it stay small, whatever was sent. */
export const WARNINGS_MAX = 20;
const NAME_CHARACTERS_MAX = 64;

export function createWarnings(): Warnings {
  const kept: Warning[] = [];
  let more = 0;
  return {
    add(warning) {
      if (kept.length < WARNINGS_MAX) kept.push(warning);
      else more += 1;
    },
    list: () => (more === 0 ? kept : [...kept, { field: 'body', message: `${more} further warnings` }]),
  };
}

/** What is said of an ignored field, and whether it looks like another one. */
export type IgnoredField = { readonly warning: Warning; readonly isNear: boolean };

/**
 * The warning of a field that nothing reads.
 * @param place Where it stands, with a dot at its end, or empty; of known names alone.
 * @param name As sent: cut, and without what is not harmless to print.
 * @param known Names that are read in this place, in camelCase.
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
  const letters = Array.from(name.slice(0, 2 * NAME_CHARACTERS_MAX));
  const shown = letters.slice(0, NAME_CHARACTERS_MAX).join('');
  const end = shown.length < name.length ? '…' : '';
  return shown.replace(/[^\p{L}\p{N}_.$@[\]-]/gu, '?') + end;
}
