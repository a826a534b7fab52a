import { parseJson } from '../classify-error.ts';
import type { ReceiptCall } from '../receipt.ts';

export type Parameters = ReadonlyMap<string, string>;

/**
 * Returns the parameters of an SMS API receipt, which arrives as a query, a form or JSON, depending on the account's
 * setting.
 */
export function parametersOf({
  method,
  url,
  body,
}: Pick<ReceiptCall, 'method' | 'url' | 'body'>): Parameters {
  if (method === 'GET') return new Map(new URLSearchParams(URL.parse(url)?.search));
  const text = Buffer.from(body).toString('utf8');
  if (!/^\s*\{/.test(text)) return new Map(new URLSearchParams(text));
  const json = parseJson(text);
  if (typeof json !== 'object' || json === null) return new Map();
  return new Map(
    Object.entries(json).flatMap(([name, value]) =>
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? [[name, String(value)] as const]
        : [],
    ),
  );
}
