/** Returns the headers of every answer; an answer that caches may keep replaces `cache-control`. */
export function standardHeaders(requestId: string): Readonly<Record<string, string>> {
  return {
    'x-request-id': requestId,
    'cache-control': 'no-store',
    // An answer may repeat input, so browsers must not guess another content type.
    'x-content-type-options': 'nosniff',
  };
}
