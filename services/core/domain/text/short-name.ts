/** Longer than any name that the api itself defines. */
const CHARACTERS_MAX = 64;

/**
 * Returns a name that a client chose as an answer shows it: the first 64 characters, then `…` if it is longer. An answer may name
 * one field many times, and a name may be as long as the request.
 */
export function shortName(name: string): string {
  if (name.length <= CHARACTERS_MAX) return name;
  const shown = Array.from(name.slice(0, 2 * CHARACTERS_MAX))
    .slice(0, CHARACTERS_MAX)
    .join('');
  return shown.length < name.length ? `${shown}…` : name;
}
