export type CallAnswer = {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies are what a test expects them to be
  readonly body: any;
  readonly headers: Headers;
  readonly tookMs: number;
};

export type CallOptions = {
  readonly key?: string;
  readonly token?: string;
  readonly slug?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Longer than any deadline of the service: a call that takes this long hangs. */
const HANGS_MS = 45_000;

/** Makes one call over the network. @throws where no answer arrived. */
export async function call(
  origin: string,
  method: string,
  path: string,
  { key, token, slug, body, headers = {} }: CallOptions = {},
): Promise<CallAnswer> {
  const started = performance.now();
  const response = await fetch(origin + path, {
    method,
    headers: {
      ...(key === undefined ? {} : { 'x-service-key': key }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(slug === undefined ? {} : { 'x-tenant-slug': slug }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    signal: AbortSignal.timeout(HANGS_MS),
  });
  const text = await response.text();
  return {
    status: response.status,
    body: text === '' ? null : (JSON.parse(text) as unknown),
    headers: response.headers,
    tookMs: performance.now() - started,
  };
}
