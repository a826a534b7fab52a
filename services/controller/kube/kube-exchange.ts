import { STATUS_CODES } from 'node:http';
import type { RequestContext } from '@kubernetes/client-node';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import type { KubeConnection } from './kube-credentials.ts';
import { aborted, KubeError, unanswered, type KubeStatus } from './kube-error.ts';

export type ExchangeOptions = {
  readonly dispatcher: KubeConnection['dispatcher'];
  /** Aborts the exchange, including the reading of the body. */
  readonly signal: AbortSignal;
  /** Called for every request with its HTTP status, or `<error>` when there was no answer. */
  readonly onRequest: (request: { readonly code: string; readonly method: string }) => void;
  /** Reads the body of an answer below 400 as a stream. Default: all of it, as text. */
  readonly read?: ((chunks: AsyncIterable<Uint8Array>) => Promise<string>) | undefined;
};

/**
 * More than a page of 500 ordinary resources, and than the largest object that etcd stores. A larger page has to be read in parts,
 * because the heap holds an answer several times over while it is parsed.
 */
export const ANSWER_BYTES_MAX = 8 * 1024 * 1024;
/** Enough of an error answer to explain it. */
const REFUSAL_BYTES_MAX = 1024 * 1024;

/**
 * Sends one request once.
 * @returns what `read` returned for its body.
 * @throws KubeError for every status from 400 on, and when there was no answer or it is too large.
 */
export async function exchange(request: RequestContext, options: ExchangeOptions): Promise<string> {
  const { dispatcher, signal, onRequest } = options;
  const method = request.getHttpMethod();
  const { origin, pathname, search } = new URL(request.getUrl());
  const sending = dispatcher.request({
    origin,
    path: pathname + search,
    method,
    headers: request.getHeaders(),
    body: (request.getBody() as string | undefined) ?? null,
    signal,
  });
  const answer = await untilAborted(sending, signal).catch((error: unknown) => {
    onRequest({ code: '<error>', method });
    throw connectionFault(error, signal);
  });
  onRequest({ code: String(answer.statusCode), method });
  if (answer.statusCode >= 400) {
    const text = await textOf(answer.body, REFUSAL_BYTES_MAX, signal).catch(onlyIfTooLarge);
    throw refusal(answer.statusCode, header(answer.headers['retry-after']), text);
  }
  return options.read?.(answer.body) ?? textOf(answer.body, ANSWER_BYTES_MAX, signal);
}

async function textOf(
  chunks: AsyncIterable<Uint8Array>,
  bytesMax: number,
  signal: AbortSignal,
): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of chunks) {
      bytes += chunk.byteLength;
      if (bytes > bytesMax) throw unanswered('TooLarge', `The answer is larger than ${bytesMax} bytes`);
      parts.push(chunk);
    }
  } catch (error) {
    throw connectionFault(error, signal);
  }
  return Buffer.concat(parts).toString();
}

/** Then the status alone has to explain the failure. */
function onlyIfTooLarge(error: KubeError): string {
  if (error.reason === 'TooLarge') return '';
  throw error;
}

/**
 * The library checks the signal of a request that waits for a connection only once it has one. The request is not sent
 * then, but until then the caller would not learn of the abort.
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

/** Maps a failed connection to an error. If the signal's reason is a `KubeError` (a deadline), it is kept. */
export function connectionFault(error: unknown, signal: AbortSignal): KubeError {
  if (error instanceof KubeError) return error;
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    if (reason instanceof KubeError) return reason;
    return aborted(reason);
  }
  const { code } = error as { readonly code?: unknown };
  const detail = typeof code === 'string' ? code : error instanceof Error ? error.message : 'unknown';
  return unanswered('Network', `The API server could not be reached: ${detail}`, { cause: error });
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw noJson(error);
  }
}

/** Returns the error for an answer that is not JSON, from the error that the library throws. */
export function noJson(error: unknown): KubeError {
  return unreadable('The API server sent something that is no JSON', { cause: error });
}

export function unreadable(message: string, options?: ErrorOptions): KubeError {
  return unanswered('Unreadable', message, options);
}

/**
 * Returns the error for a `Status` from an answer or a watch event.
 * @param retryAfter the Retry-After header of the answer.
 */
export function statusError(status: KubeStatus, code: number, retryAfter?: string): KubeError {
  const seconds = status.details?.retryAfterSeconds;
  const now = Date.now();
  return new KubeError({
    code,
    reason: status.reason ?? (STATUS_CODES[code] ?? 'Unknown').replaceAll(' ', ''),
    message: status.message ?? `The API server answered with status ${code}`,
    retryAfterMs: retryAfterMs(retryAfter, now) ?? retryAfterMs(seconds?.toString(), now),
    status,
  });
}

function refusal(code: number, retryAfter: string | undefined, text: string): KubeError {
  let status: KubeStatus = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null) status = parsed;
  } catch {
    // An error page of a proxy, or the plain text of a server that is starting.
    status = {};
  }
  return statusError(status, code, retryAfter);
}

function header(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
