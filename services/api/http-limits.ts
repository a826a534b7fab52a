import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '#core/domain/app-error.ts';

/** What one process gives to whoever connects, before it knows who they are. */
export type HttpLimits = {
  /** From the start of a connection or request until its headers are there. */
  readonly headersTimeoutMs: number;
  /** Until the body is there too. */
  readonly requestTimeoutMs: number;
  /** Beyond it connections are closed as they come. */
  readonly connectionsMax: number;
  /** Requests are refused while the event loop is behind by more than this on average. 0: never. */
  readonly loopDelayMaxMs: number;
};

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 10_000,
  connectionsMax: 10_000,
  loopDelayMaxMs: 500,
};

/** How late at most a timeout is noticed. Node's own 30 seconds would make a deadline of ten one of forty. */
const CHECK_EVERY_MS = 1_000;
/** Longer than the idle limits of common load balancers, which must be the first to close. */
const KEEP_ALIVE_MS = 72_000;
/** Requests of one connection that wait for their turn to be answered. */
const PIPELINED_MAX = 32;

/** Makes the server of the api: everything that it bounds by itself, before there is a request to speak of. */
export function serverFactory(limits: HttpLimits): (handler: RequestListener) => Server {
  return (handler) => {
    const server = createServer(
      {
        headersTimeout: limits.headersTimeoutMs,
        requestTimeout: limits.requestTimeoutMs,
        connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersTimeoutMs),
        keepAliveTimeout: KEEP_ALIVE_MS,
        // Node's own refusal has no body; ours is among the hooks.
        requireHostHeader: false,
      },
      withShortPipelines(handler),
    );
    // For who sends nothing and reads nothing, such as an answer; longer than any answer takes.
    server.setTimeout(3 * limits.requestTimeoutMs);
    server.maxConnections = limits.connectionsMax;
    return server;
  };
}

/**
 * Closes a connection that has too many requests waiting behind the one being answered. All that a packet holds is
 * begun at once, a thousand requests in one turn of the event loop, and everybody else waits for them.
 */
function withShortPipelines(handler: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    // A response has the connection for itself from the start unless another one still has it.
    if (response.socket === null) {
      const count = (waiting.get(socket) ?? 0) + 1;
      if (count > PIPELINED_MAX) socket.destroy();
      if (socket.destroyed) return;
      waiting.set(socket, count);
      response.once('close', () => waiting.set(socket, (waiting.get(socket) ?? 1) - 1));
    }
    handler(request, response);
  };
}

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
