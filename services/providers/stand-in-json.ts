import { parseJson } from './classify-error.ts';

/**
 * Parses the body of a request to a stand-in. Undefined when it is not a JSON object: the stand-in answers that with its
 * vendor's error.
 */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = parseJson(text);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;
}
