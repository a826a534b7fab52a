import type { LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher } from 'undici';
import type { HttpRequest, HttpResult } from '#core/domain/http-exchange.ts';
import type { EgressGuard } from './egress-guard.ts';

export type HttpClientOptions = {
  /** DNS, TCP and TLS together. Default 5 s. */
  readonly connectTimeoutMs?: number;
  /** The whole exchange, waiting for a free connection included. Default 15 s. */
  readonly totalDeadlineMs?: number;
  /** Response bodies are cut here. Default 64 KiB. */
  readonly bodyBytesMax?: number;
  /** Default 64. */
  readonly connectionsPerOrigin?: number;
  readonly userAgent?: string;
  /** Resolver for host names, for clients whose hosts are tenant input. IP literals never reach it. */
  readonly lookup?: LookupFunction;
  /** For requests to hosts that tenants chose (`isTenantHost`); without a guard they are refused. */
  readonly guard?: Pick<EgressGuard, 'resolve'>;
};

/** Sends one request; never throws, never follows a redirect, never sends twice. */
export type HttpClient = ((request: HttpRequest, signal?: AbortSignal) => Promise<HttpResult>) &
  AsyncDisposable;

/**
 * The shared client for calls to third parties. What its result says holds for every failure:
 * - `not_sent`: undici had not begun to write the request. It announces that moment (`onRequestStart`) right before the
 *   first byte, and a request whose time ran out earlier is refused there, so it cannot leave afterwards.
 * - `response`: a final status line arrived. Should the body be too large, break off or stall, the part that came is
 *   given: the status is the provider's answer, and a success that cannot be read is for the adapter to call ambiguous.
 * - `ambiguous`: anything else. A GET changes nothing at the other side, so its failures are `not_sent`.
 */
export function createHttpClient(options: HttpClientOptions = {}): HttpClient {
  const { connectTimeoutMs = 5_000, totalDeadlineMs = 15_000, bodyBytesMax = 65_536 } = options;
  const { connectionsPerOrigin = 64, userAgent = 'Despatch', lookup, guard } = options;
  const pool = {
    allowH2: false,
    connections: connectionsPerOrigin,
    pipelining: 1,
    // The total deadline covers both; two timers fewer per request.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  const connection = { timeout: connectTimeoutMs, ...(lookup === undefined ? {} : { lookup }) };
  const agent = new Agent({ ...pool, connect: connection });
  // Connections of their own: one that was opened past the guard must carry no request that has to pass it.
  const guardedAgent = new Agent({ ...pool, connect: guardedConnector(guard, connectTimeoutMs) });

  const send = (request: HttpRequest, signal?: AbortSignal): Promise<HttpResult> =>
    new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve({ kind: 'not_sent', code: 'timeout' });
        return;
      }
      const exchange = new Exchange(request.method, bodyBytesMax, totalDeadlineMs, signal, resolve);
      const slash = request.url.indexOf('/', 8);
      try {
        (request.isTenantHost === true ? guardedAgent : agent).dispatch(
          {
            origin: slash === -1 ? request.url : request.url.slice(0, slash),
            path: slash === -1 ? '/' : request.url.slice(slash),
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

  return Object.assign(send, {
    [Symbol.asyncDispose]: async () => {
      await Promise.all([agent.destroy(), guardedAgent.destroy()]);
    },
  });
}

/**
 * Connects to the one address that the guard has checked, so that a second resolution cannot change it; the host name
 * remains what the certificate must prove.
 */
function guardedConnector(
  guard: HttpClientOptions['guard'],
  timeout: number,
): ReturnType<typeof buildConnector> {
  const connect = buildConnector({ timeout, allowH2: false });
  return (options, callback) => {
    const port = Number(options.port) || (options.protocol === 'https:' ? 443 : 80);
    const checked = guard?.resolve(options.hostname, port) ?? REFUSED;
    void checked.then((resolved) => {
      if (resolved.kind === 'address') connect({ ...options, hostname: resolved.address }, callback);
      else callback(new EgressError(resolved.code), null);
    });
  };
}

const REFUSED = Promise.resolve({ kind: 'refused', code: 'egress_blocked' } as const);

class EgressError extends Error {
  readonly code: string;

  constructor(code: 'dns' | 'egress_blocked') {
    super(`Connection refused by the egress guard: ${code}`);
    this.code = code === 'dns' ? 'ENOTFOUND' : 'EGRESS_BLOCKED';
  }
}

/** One request's handler; a class because undici calls its methods at 20,000 requests a second. */
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
    // Node keeps timers of one duration in one list, so this costs an insertion and a removal.
    this.#timer = setTimeout(this.#giveUp, deadlineMs);
    signal?.addEventListener('abort', this.#giveUp, { once: true });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Thrown here, undici drops the request unwritten and keeps the connection; an abort would close it.
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
    this.#bodyBytes += chunk.length;
    if (chunk.length <= room) return;
    this.#settle(this.#answer());
    controller.abort(new Error('The response body is too large'));
  }

  onResponseEnd(): void {
    this.#settle(this.#answer());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#settle(this.#failed(codeOf(error, this.#controller !== undefined)));
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

const CODES: Readonly<Record<string, string>> = {
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  EAI_FAIL: 'dns',
  ECONNREFUSED: 'connect_refused',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ETIMEDOUT: 'connect_timeout',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  UND_ERR_INVALID_ARG: 'invalid_request',
  ERR_INVALID_URL: 'invalid_request',
  UND_ERR_DESTROYED: 'shutdown',
  UND_ERR_CLOSED: 'shutdown',
  EGRESS_BLOCKED: 'egress_blocked',
};

function codeOf(error: Error & { code?: unknown; errors?: unknown }, isWritten: boolean): string {
  const code = typeof error.code === 'string' ? error.code : '';
  if (isWritten) return code === 'UND_ERR_DESTROYED' ? 'shutdown' : 'connection_reset';
  const known = CODES[code];
  if (known !== undefined) return known;
  // A host with several addresses fails with all their errors; the first tells enough.
  const first = Array.isArray(error.errors) ? (error.errors[0] as Error | undefined) : undefined;
  if (first !== undefined) return codeOf(first, isWritten);
  return /^(?:ERR_TLS|ERR_SSL|CERT_|EPROTO$|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code)
    ? 'tls'
    : 'connect_failed';
}
