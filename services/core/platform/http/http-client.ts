import { constants } from 'node:http2';
import type { Dispatcher } from 'undici';
import type { CallDeadline, HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import { createAgents, type AgentsOptions } from './agents.ts';
import { requestFault } from './request-fault.ts';

export type HttpClientOptions = Partial<Omit<AgentsOptions, 'silenceMs'>> & {
  /** Maximum time of the whole exchange, including the wait for a free connection. Default 15 s. */
  readonly totalDeadlineMs?: number;
  /** Maximum size of a response body, if the request names none; the rest is cut off. Default 64 KiB. */
  readonly bodyBytesMax?: number;
  readonly userAgent?: string;
};

/** Sends one request. Never throws, never follows a redirect, and never sends a request twice that may have been processed. */
export type HttpClient = ((request: HttpRequest, until?: CallDeadline) => Promise<HttpResult>) &
  AsyncDisposable;

/**
 * Creates the shared client for calls to third parties. The kinds of its results:
 * - `not_sent`: undici had not begun to write the request. It announces that moment (`onRequestStart`) right before the first
 *   byte; a request whose deadline passed earlier is refused there, so it cannot be sent later. Or an HTTP/2 server stated that
 *   it did not process the request, also after undici sent it once more.
 * - `response`: a final status line arrived. If the body is too large, breaks off or stalls, the received part is returned: the
 *   status is the provider's answer, and an adapter treats a success that it cannot read as ambiguous.
 * - `ambiguous`: anything else. A GET changes nothing on the other side, so its failures are `not_sent`.
 */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const { totalDeadlineMs = 15_000, bodyBytesMax = 65_536, userAgent = 'Despatch' } = options;
  const { connectTimeoutMs = 5_000, connectionsPerOrigin, lookup, guard } = options;
  const agents = createAgents({
    connectTimeoutMs,
    connectionsPerOrigin,
    lookup,
    guard,
    silenceMs: Math.ceil(totalDeadlineMs / 2),
  });

  const send = (request: HttpRequest, until: CallDeadline = Number.POSITIVE_INFINITY): Promise<HttpResult> =>
    new Promise((resolve) => {
      const signal = typeof until === 'number' ? undefined : until;
      // Whole milliseconds: Node keeps timers of the same duration in one list, so each costs only an insertion and a removal.
      const restMs = typeof until === 'number' ? Math.ceil(until - performance.now()) : totalDeadlineMs;
      if (signal?.aborted === true || restMs <= 0) {
        resolve({ kind: 'not_sent', code: 'timeout' });
        return;
      }
      const slash = request.url.indexOf('/', 8);
      const path = slash === -1 ? '/' : request.url.slice(slash);
      const fault = requestFault(path, request.headers);
      if (fault !== undefined) {
        resolve({ kind: 'not_sent', code: fault });
        return;
      }
      const exchange = new Exchange(
        request.method,
        request.bodyBytesMax ?? bodyBytesMax,
        Math.min(restMs, totalDeadlineMs),
        signal,
        resolve,
      );
      try {
        agents.of(request).dispatch(
          {
            origin: slash === -1 ? request.url : request.url.slice(0, slash),
            path,
            method: request.method,
            headers: { 'user-agent': userAgent, ...request.headers },
            body: request.body ?? null,
          },
          exchange,
        );
      } catch (error) {
        exchange.onResponseError(undefined, error as Error);
      }
    });

  return Object.assign(send, { [Symbol.asyncDispose]: agents.destroy });
}

/**
 * Chunks of an answer that are kept as they came. Each needs a hundred bytes besides its content, so an answer that comes byte by
 * byte would need a hundred times its size.
 */
const CHUNKS_MAX = 64;

/** Handles one request; a class because undici calls its methods at 20,000 requests a second. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #isIdempotent: boolean;
  readonly #bodyBytesMax: number;
  readonly #signal: AbortSignal | undefined;
  readonly #resolve: (result: HttpResult) => void;
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #isSettled = false;
  #status = 0;
  #headers: Record<string, string> = {};
  #chunks: Buffer[] = [];
  #bodyBytes = 0;

  constructor(
    method: HttpRequest['method'],
    bodyBytesMax: number,
    deadlineMs: number,
    signal: AbortSignal | undefined,
    resolve: (result: HttpResult) => void,
  ) {
    this.#isIdempotent = method === 'GET';
    this.#bodyBytesMax = bodyBytesMax;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#timer = setTimeout(this.#giveUp, deadlineMs);
    signal?.addEventListener('abort', this.#giveUp, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // On a throw here, undici drops the unwritten request and keeps the connection; an abort would close it.
    if (this.#isSettled) throw new Error('The deadline passed before the request was written');
    this.#controller = controller;
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) this.#headers[name] = typeof value === 'string' ? value : value.join(', ');
    }
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = this.#bodyBytesMax - this.#bodyBytes;
    this.#chunks.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    if (this.#chunks.length > CHUNKS_MAX) this.#chunks = [Buffer.concat(this.#chunks)];
    this.#bodyBytes += chunk.length;
    if (chunk.length <= room) return;
    this.#settle(this.#answer());
    controller.abort(new Error('The response body is too large'));
  }

  onResponseEnd(): void {
    this.#settle(this.#answer());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const isTaken = this.#controller !== undefined;
    this.#settle(
      isUntaken(error) && this.#status === 0
        ? { kind: 'not_sent', code: 'connection_closed' }
        : this.#failed(codeOf(error, isTaken)),
    );
  }

  readonly #giveUp = (): void => {
    if (this.#isSettled) return;
    this.#settle(this.#failed('timeout'));
    this.#controller?.abort(new Error('The deadline passed'));
  };

  #failed(code: string): HttpResult {
    if (this.#status !== 0) return this.#answer();
    return this.#controller === undefined || this.#isIdempotent
      ? { kind: 'not_sent', code }
      : { kind: 'ambiguous', code };
  }

  #answer(): HttpResult {
    const text = this.#chunks.length === 1 ? String(this.#chunks[0]) : Buffer.concat(this.#chunks).toString();
    return { kind: 'response', status: this.#status, headers: this.#headers, text };
  }

  #settle(result: HttpResult): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#giveUp);
    this.#resolve(result);
  }
}

/** Returns whether the server stated that it did not process this HTTP/2 request (RFC 9113, 8.7). */
function isUntaken(error: Error & { http2ErrorCode?: unknown }): boolean {
  return (
    error.http2ErrorCode === constants.NGHTTP2_REFUSED_STREAM ||
    error.message.includes('"GOAWAY" frame received')
  );
}

const CODES: Readonly<Record<string, string>> = {
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  EAI_FAIL: 'dns',
  ECONNREFUSED: 'connect_refused',
  EAFNOSUPPORT: 'unreachable',
  EHOSTDOWN: 'unreachable',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ETIMEDOUT: 'connect_timeout',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  // What else undici refuses is the origin.
  UND_ERR_INVALID_ARG: 'invalid_url',
  ERR_INVALID_URL: 'invalid_url',
  UND_ERR_DESTROYED: 'shutdown',
  UND_ERR_CLOSED: 'shutdown',
  EGRESS_BLOCKED: 'egress_blocked',
};

const CODES_WRITTEN: Readonly<Record<string, string>> = {
  UND_ERR_DESTROYED: 'shutdown',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
};

function codeOf(error: Error & { code?: unknown; errors?: unknown }, isWritten: boolean): string {
  const code = typeof error.code === 'string' ? error.code : '';
  if (isWritten) return CODES_WRITTEN[code] ?? 'connection_reset';
  const known = CODES[code];
  if (known !== undefined) return known;
  // A host with several addresses fails with one error for each; the first one is enough.
  const first = Array.isArray(error.errors) ? (error.errors[0] as Error | undefined) : undefined;
  if (first !== undefined) return codeOf(first, isWritten);
  return /^(?:ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)
    ? 'tls'
    : 'connect_failed';
}
