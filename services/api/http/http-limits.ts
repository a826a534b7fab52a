import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '#core/domain/app-error.ts';
import type { Lingering } from './lingering.ts';

/** What one process gives to whoever connects, before it knows who they are. */
export type HttpLimits = {
  /** From the start of a connection or request until its headers are there. */
  readonly headersTimeoutMs: number;
  /** How long every body has. */
  readonly requestTimeoutMs: number;
  /** How much longer a large one has. */
  readonly bodyBytesPerSecondMin: number;
  /** What the bodies of requests, and the answers that wait to be read, may take together. */
  readonly memoryBytesMax: number;
  /** Beyond it connections are closed as they come. */
  readonly connectionsMax: number;
  /** Requests are refused while the event loop is behind by more than this on average. 0: never. */
  readonly loopDelayMaxMs: number;
};

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 10_000,
  bodyBytesPerSecondMin: 131_072,
  memoryBytesMax: 64 * 1024 * 1024,
  connectionsMax: 10_000,
  loopDelayMaxMs: 500,
};

/** How late at most a timeout is noticed. Node's own 30 seconds would make a deadline of ten one of forty. */
const CHECK_EVERY_MS = 1_000;
/** Longer than the idle limits of common load balancers, which must be the first to close. */
const KEEP_ALIVE_MS = 72_000;
/** Requests of one connection that wait for their turn to be answered. */
const PIPELINED_MAX = 32;

/** How long a client that was too slow with its request may go on before it is closed for good. */
const SLOW_LINGER_MS = 1_000;

/** Makes the server of the api: everything that it bounds by itself, before there is a request to speak of. */
export function serverFactory(
  limits: HttpLimits,
  lingering: Lingering,
): (handler: RequestListener) => Server {
  return (handler) => {
    const server = createServer(
      {
        headersTimeout: limits.headersTimeoutMs,
        // Bodies have a deadline of their own, which goes with their size.
        requestTimeout: 0,
        connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersTimeoutMs),
        keepAliveTimeout: KEEP_ALIVE_MS,
        // Node's own refusal has no body; ours is among the hooks.
        requireHostHeader: false,
      },
      closingGently(limits, lingering, oneAfterTheOther(handler)),
    );
    // For who sends nothing and reads nothing, such as an answer; longer than any answer takes.
    server.setTimeout(3 * limits.requestTimeoutMs);
    server.maxConnections = limits.connectionsMax;
    return server;
  };
}

/**
 * Begins with a request when the one before it on the connection has been answered. All that a packet holds would begin
 * at once otherwise, a thousand requests in one turn of the event loop, and each answer would wait in memory for a
 * client that does not read. Nothing more is read while a request waits, and too many close the connection.
 */
function oneAfterTheOther(handler: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    // A response has the connection for itself from the start unless another one still has it.
    if (response.socket !== null) return handler(request, response);
    const count = (waiting.get(socket) ?? 0) + 1;
    if (count > PIPELINED_MAX) socket.destroy();
    if (socket.destroyed) return;
    waiting.set(socket, count);
    socket.pause();
    response.once('socket', () => {
      const left = (waiting.get(socket) ?? 1) - 1;
      waiting.set(socket, left);
      if (left === 0) socket.resume();
      handler(request, response);
    });
  };
}

/** Has a connection linger that is to be closed after an answer while its request is still arriving. */
function closingGently(limits: HttpLimits, lingering: Lingering, handler: RequestListener): RequestListener {
  const current = new WeakMap<Socket, Current>();
  return (request, response) => {
    const { socket } = request;
    if (lingering.has(socket)) return;
    const known = current.get(socket);
    if (known === undefined) {
      const last: Current = { request, since: performance.now() };
      current.set(socket, last);
      const close = socket.destroySoon.bind(socket);
      socket.destroySoon = () => {
        if (last.request.complete) return close();
        const isLate = performance.now() - last.since >= limits.requestTimeoutMs;
        lingering.add(socket, last.request, isLate ? SLOW_LINGER_MS : undefined);
      };
    } else {
      known.request = request;
      known.since = performance.now();
    }
    handler(request, response);
  };
}

/** A connection's latest request. */
type Current = { request: IncomingMessage; since: number };

/** Refuses first what is too much: no other work is done for it. */
export async function shedOverload(app: FastifyInstance, limits: HttpLimits): Promise<void> {
  await app.register(underPressure, {
    maxEventLoopDelay: limits.loopDelayMaxMs,
    customError: OverloadedError,
  });
}

/** The process is behind with its work. */
export class OverloadedError extends AppError {
  constructor() {
    super('dependency_unavailable', { retryAfter: 5 });
  }
}
