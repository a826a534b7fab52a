/** A client may send a whole URL, as to a proxy (RFC 9112, 3.2.2). */
const ORIGIN = /^https?:\/\/[^/?]*/i;

/** Returns the path of a request's URL, without its origin and query. */
export function pathOf(url: string): string {
  const target = url.startsWith('/') ? url : url.replace(ORIGIN, '');
  const end = target.indexOf('?');
  return end === -1 ? target : target.slice(0, end);
}
