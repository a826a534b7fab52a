import type { RouteAuth } from './auth.ts';

const BEARER = 'Bearer';
/** No registered scheme stands for a key in a header of its own; clients ignore schemes that they do not know. */
const KEY = 'ApiKey header="X-Service-Key"';

/** Returns the value of `WWW-Authenticate`, which every 401 must have (RFC 9110, 11.6.1): the credentials that a route accepts. */
export function challengeOf(auth: RouteAuth): string {
  switch (auth.kind) {
    case 'key':
      return KEY;
    case 'either':
      return `${BEARER}, ${KEY}`;
    case 'bearer':
    case 'user':
    case 'none':
      return BEARER;
  }
}
