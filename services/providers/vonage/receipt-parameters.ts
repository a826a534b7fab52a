import { boundedParameters, PARAMETERS_MAX } from '../bounded-parameters.ts';
import { parseJson } from '../classify-error.ts';
import type { ReceiptCall } from '../receipt.ts';

export type Parameters = ReadonlyMap<string, string>;

/**
 * Returns the parameters of an SMS API receipt, which arrives as a query, a form or JSON, depending on the account's
 * setting. Empty if there are too many to be a receipt.
 */
export function parametersOf({
  method,
  url,
  body,
}: Pick<ReceiptCall, 'method' | 'url' | 'body'>): Parameters {
  if (method === 'GET') return new Map(boundedParameters(URL.parse(url)?.search ?? ''));
  const text = Buffer.from(body).toString('utf8');
  if (!/^\s*\{/.test(text)) return new Map(boundedParameters(text));
  const json = parseJson(text);
  if (typeof json !== 'object' || json === null) return new Map();
  const fields = Object.entries(json);
  if (fields.length > PARAMETERS_MAX) return new Map();
  return new Map(
    fields.flatMap(([name, value]) =>
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? [[name, String(value)] as const]
        : [],
    ),
  );
}
