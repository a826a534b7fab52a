/**
 * Maximum number of parameters in a form or query. A genuine callback has fewer than 100, and a form of the shortest parameters
 * takes a fifth of a second to decode, for each secret it is verified with.
 */
export const PARAMETERS_MAX = 1_000;

/** Decodes a form or query; undefined if it has more than `PARAMETERS_MAX` parameters, which are then not decoded. */
export function boundedParameters(text: string): URLSearchParams | undefined {
  let count = 1;
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1))
    if (++count > PARAMETERS_MAX) return undefined;
  return new URLSearchParams(text);
}
