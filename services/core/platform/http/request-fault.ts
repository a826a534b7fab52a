import type { HttpRequest } from '#core/domain/sending/http-exchange.ts';

/** RFC 9110, 5.6.2. */
const NAME = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;
const NOT_IN_A_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_IN_A_PATH = /[^\x21-\xff]/;
/** Headers that undici refuses or sets itself. */
const RESERVED: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Returns why undici would refuse a request; undefined if it accepts it. A request that a connection of a pool refuses makes the
 * pool treat this connection as full, and an HTTP/2 pool then sends no further request.
 */
export function requestFault(
  path: string,
  headers: HttpRequest['headers'] = {},
): 'invalid_url' | 'invalid_request' | undefined {
  if (NOT_IN_A_PATH.test(path)) return 'invalid_url';
  for (const name in headers) {
    if (!NAME.test(name) || RESERVED.has(name.toLowerCase())) return 'invalid_request';
    if (NOT_IN_A_VALUE.test(headers[name] ?? '')) return 'invalid_request';
  }
  return undefined;
}
