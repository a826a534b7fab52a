import http, { type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import { syncBuiltinESMExports } from 'node:module';

type Callback = (response: IncomingMessage) => void;

/** Until disposed, redirects requests to any https origin to a local server. */
export type VendorCalls = Disposable & {
  /** The origins that were addressed, in order. */
  readonly origins: readonly string[];
};

/**
 * Redirects the calls of vendors' SDKs to a local server. The SDKs keep their built-in origins, so that the tests compare these
 * too; some SDKs cannot be configured at all.
 */
export function leadVendorCalls(to: string): VendorCalls {
  const local = new URL(to);
  const origins: string[] = [];
  const real = { request: https.request, get: https.get, connect: http2.connect, fetch: globalThis.fetch };

  function request(...given: unknown[]): ClientRequest {
    const callback = given.find((one): one is Callback => typeof one === 'function');
    const { url, options } = targetOf(given);
    origins.push(url.origin);
    const { agent: _, agents: __, auth, headers, method } = options as RequestOptions & { agents?: unknown };
    const { hostname, port } = local;
    const path = url.pathname + url.search;
    const target = { hostname, port, path, method, headers, ...(auth ? { auth } : {}) };
    return http.request(target as RequestOptions, callback);
  }
  function get(...given: unknown[]): ClientRequest {
    return request(...given).end();
  }
  function connect(authority: string | URL): http2.ClientHttp2Session {
    origins.push(new URL(authority).origin);
    // The options that an SDK passes concern only TLS.
    return real.connect(local);
  }
  async function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    if (url.protocol !== 'https:') return real.fetch(input, init);
    origins.push(url.origin);
    const there = new URL(url.pathname + url.search, local);
    return real.fetch(input instanceof Request ? new Request(there, input) : there, init);
  }

  replace({ request, get }, connect, fetch);
  return {
    origins,
    [Symbol.dispose]: () => replace({ request: real.request, get: real.get }, real.connect, real.fetch),
  };
}

function replace(calls: object, connect: unknown, fetch: typeof globalThis.fetch): void {
  Object.assign(http2, { connect });
  Object.assign(https, calls);
  globalThis.fetch = fetch;
  syncBuiltinESMExports();
}

/** Accepts a URL, options, or both. */
function targetOf(given: readonly unknown[]): { readonly url: URL; readonly options: RequestOptions } {
  const [first] = given;
  const options = (given.find((one) => isOptions(one)) ?? {}) as RequestOptions & { readonly href?: string };
  if (typeof first === 'string' || first instanceof URL) return { url: new URL(first), options };
  const { hostname, host, port, path = '/' } = options;
  const at = port && Number(port) !== 443 ? `:${port}` : '';
  return { url: new URL(path ?? '/', `https://${hostname ?? host}${at}`), options };
}

function isOptions(one: unknown): boolean {
  return typeof one === 'object' && one !== null && !(one instanceof URL);
}
