import type { FetchImplementation } from 'jose';

/** An issuer's documents have a few KiB. */
export const ISSUER_DOCUMENT_BYTES_MAX = 256 * 1024;

export function discoveryUrl(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}

/**
 * Returns a fetch of the keys that asks the discovery document each time where they are: an issuer may move them, and may leave
 * the previous ones in place.
 */
export function fetchDiscovered(issuer: string, fetchUrl: typeof fetch = fetch): FetchImplementation {
  return async (url, options) => {
    const keys = await fetchUrl(await discoverJwksUrl(issuer, url, options.signal, fetchUrl), options);
    return new Response(await boundedBytes(keys), { status: keys.status });
  };
}

async function discoverJwksUrl(
  issuer: string,
  url: string,
  signal: AbortSignal,
  fetchUrl: typeof fetch,
): Promise<URL> {
  const response = await fetchUrl(url, { signal, redirect: 'error' });
  if (!response.ok) throw new Error(`the issuer's discovery document answered ${response.status}`);
  const text = (await boundedBytes(response)).toString('utf8');
  const document = JSON.parse(text) as { issuer?: unknown; jwks_uri?: unknown };
  if (document.issuer !== issuer || typeof document.jwks_uri !== 'string') {
    throw new Error("the issuer's discovery document is not its own");
  }
  const found = new URL(document.jwks_uri);
  // Whoever is in the path of an unencrypted answer could put keys of their own into it.
  const isHttp = found.protocol === 'http:' && issuer.startsWith('http:');
  if (found.protocol !== 'https:' && !isHttp) {
    throw new Error("the issuer's discovery document names keys without https");
  }
  return found;
}

async function boundedBytes(response: Response): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.byteLength;
    if (length > ISSUER_DOCUMENT_BYTES_MAX)
      throw new Error(`an issuer's document exceeds ${ISSUER_DOCUMENT_BYTES_MAX} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
