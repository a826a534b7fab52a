import { STATUS_CODES } from 'node:http';
import { KubeError, type KubeStatus } from './kube-error.ts';
import type { KubeConnection } from './kube-credentials.ts';

export type KubeMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export type KubeRequest = {
  readonly method: KubeMethod;
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  readonly contentType?: string;
};

/** An answer whose status is below 400. */
export type KubeAnswer = {
  /** The whole body as JSON. @throws KubeError */
  readonly json: () => Promise<unknown>;
  /** Parts of the body as they come. Errors of the connection are thrown raw; see `connectionFault`. */
  readonly chunks: AsyncIterable<Uint8Array>;
};

export type ExchangeOptions = {
  readonly connection: KubeConnection;
  readonly userAgent: string;
  /** Ends the exchange, the reading of the body included. */
  readonly signal: AbortSignal;
  /** Told of every request: its HTTP status, or `<error>` where no answer came. */
  readonly onRequest: (request: { readonly code: string; readonly method: string }) => void;
};

/** Sends one request once. @throws KubeError for every status from 400 on, and where no answer came. */
export async function exchange(request: KubeRequest, options: ExchangeOptions): Promise<KubeAnswer> {
  const { connection, signal, onRequest } = options;
  const { method } = request;
  const sending = connection.dispatcher.request({
    origin: connection.origin,
    path: connection.basePath + request.path + queryOf(request.query),
    method,
    headers: {
      accept: 'application/json',
      'user-agent': options.userAgent,
      ...(request.body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
      ...connection.headers,
    },
    body: request.body === undefined ? null : JSON.stringify(request.body),
    signal,
  });
  const answer = await untilAborted(sending, signal).catch((error: unknown) => {
    onRequest({ code: '<error>', method });
    throw connectionFault(error, signal);
  });
  onRequest({ code: String(answer.statusCode), method });
  const text = (): Promise<string> =>
    answer.body.text().catch((error: unknown) => {
      throw connectionFault(error, signal);
    });
  if (answer.statusCode >= 400) {
    throw refusal(answer.statusCode, header(answer.headers['retry-after']), await text());
  }
  return { json: async () => parseJson(await text()), chunks: answer.body };
}

/**
 * The library looks at the signal of a request that waits for its connection only when there is one. It is not sent then;
 * but until then nobody would be told.
 */
async function untilAborted<T>(sending: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort);
  if (signal.aborted) abort();
  try {
    return await Promise.race([sending, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** What a failed connection means to the caller. A signal's reason that is a `KubeError` (a deadline) is kept. */
export function connectionFault(error: unknown, signal: AbortSignal): KubeError {
  if (error instanceof KubeError) return error;
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    if (reason instanceof KubeError) return reason;
    return new KubeError({ code: 0, reason: 'Aborted', message: 'The call was ended' }, { cause: reason });
  }
  const { code } = error as { readonly code?: unknown };
  const detail = typeof code === 'string' ? code : error instanceof Error ? error.message : 'unknown';
  return new KubeError(
    { code: 0, reason: 'Network', message: `The API server could not be reached: ${detail}` },
    { cause: error },
  );
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new KubeError(
      { code: 0, reason: 'Unreadable', message: 'The API server sent something that is no JSON' },
      { cause: error },
    );
  }
}

/** The error for a `Status`, as an answer or as an event of a watch. */
export function statusError(status: KubeStatus, code: number, retryAfterMs?: number): KubeError {
  const seconds = status.details?.retryAfterSeconds;
  return new KubeError({
    code,
    reason: status.reason ?? (STATUS_CODES[code] ?? 'Unknown').replaceAll(' ', ''),
    message: status.message ?? `The API server answered with status ${code}`,
    retryAfterMs: retryAfterMs ?? (seconds === undefined ? undefined : seconds * 1_000),
    status,
  });
}

function refusal(code: number, retryAfter: string | undefined, text: string): KubeError {
  let status: KubeStatus = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) status = parsed;
  } catch {
    // A proxy's error page, or the plain text of a server that is starting.
    status = {};
  }
  return statusError(status, code, parseRetryAfter(retryAfter));
}

function parseRetryAfter(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1_000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

function header(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function queryOf(query: KubeRequest['query'] = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) given.set(name, String(value));
  }
  return given.size === 0 ? '' : `?${given.toString()}`;
}
