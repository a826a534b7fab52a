import { setTimeout as delay } from 'node:timers/promises';

export type Caller =
  | { readonly serviceKey: string }
  | { readonly token: string; readonly tenantSlug?: string };

export type ApiAnswer = { readonly status: number; readonly body: unknown };

export type ApiClient = {
  /** Returns the body of a successful call. @throws with the answer's status and message. */
  readonly call: <T>(caller: Caller, method: string, path: string, body?: unknown) => Promise<T>;
  /** Returns any answer, including errors. */
  readonly ask: (caller: Caller, method: string, path: string, body?: unknown) => Promise<ApiAnswer>;
};

const WAIT_S_MAX = 61;

/** Calls the public API like any client. Waits when it is rate-limited. */
export function createApiClient(baseUrl: string, note: (line: string) => void): ApiClient {
  const ask: ApiClient['ask'] = async (caller, method, path, body) => {
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        ...headersOf(caller),
        'x-app-name': 'quickstart',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await response.text();
    const retryAfter = Number(response.headers.get('retry-after'));
    if (response.status === 429 && retryAfter > 0 && retryAfter <= WAIT_S_MAX) {
      note(`Rate limit reached by earlier calls: going on in ${retryAfter} s`);
      await delay(retryAfter * 1_000);
      return ask(caller, method, path, body);
    }
    return { status: response.status, body: text === '' ? null : (JSON.parse(text) as unknown) };
  };

  return {
    ask,
    async call<T>(caller: Caller, method: string, path: string, body?: unknown): Promise<T> {
      const answer = await ask(caller, method, path, body);
      if (answer.status >= 300) throw new Error(`${method} ${path} answered ${describe(answer)}`);
      return answer.body as T;
    },
  };
}

export function describe({ status, body }: ApiAnswer): string {
  const { message, details = [] } = (body ?? {}) as {
    message?: string;
    details?: { field?: string; message?: string }[];
  };
  const faults = details.map((detail) => `${detail.field ?? ''} ${detail.message ?? ''}`.trim());
  return [`${status} ${message ?? ''}`.trim(), ...faults].join('; ');
}

function headersOf(caller: Caller): Record<string, string> {
  if ('serviceKey' in caller) return { 'x-service-key': caller.serviceKey };
  return {
    authorization: `Bearer ${caller.token}`,
    ...(caller.tenantSlug === undefined ? {} : { 'x-tenant-slug': caller.tenantSlug }),
  };
}
