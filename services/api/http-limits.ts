import underPressure from '@fastify/under-pressure';
import type { FastifyHttpOptions, FastifyInstance } from 'fastify';
import type { Server } from 'node:http';
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

export function httpOptions(limits: HttpLimits): FastifyHttpOptions<Server> {
  return {
    requestTimeout: limits.requestTimeoutMs,
    // For who sends nothing and reads nothing, such as an answer; longer than any answer takes.
    connectionTimeout: 3 * limits.requestTimeoutMs,
    // Longer than the idle limits of common load balancers, which must be the first to close.
    keepAliveTimeout: 72_000,
    http: {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersTimeoutMs),
      // Node's own refusal has no body; ours is among the hooks.
      requireHostHeader: false,
    },
  };
}

/** Refuses first what is too much: no other work is done for it. */
export async function shedOverload(app: FastifyInstance, limits: HttpLimits): Promise<void> {
  app.server.maxConnections = limits.connectionsMax;
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
