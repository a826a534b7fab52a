import underPressure from '@fastify/under-pressure';
import type { FastifyInstance } from 'fastify';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { overloaded } from '#core/domain/fault/app-error.ts';
import { refuseTunnel } from '../errors.ts';
import type { Lingering } from './lingering.ts';

/** Resource limits of one process for clients that are not authenticated yet. */
export type HttpLimits = {
  /** From the start of a connection or request until its headers have arrived. */
  readonly headersTimeoutMs: number;
  /** Time that every body may take. */
  readonly requestTimeoutMs: number;
  /** A large body gets additional time at this rate. */
  readonly bodyBytesPerSecondMin: number;
  /** Total memory for request bodies and for answers that the client has not read. */
  readonly memoryBytesMax: number;
  /** Further connections are closed immediately. */
  readonly connectionsMax: number;
  /** Requests are refused while the mean event loop delay exceeds this. 0: never. */
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

/**
 * The maximum delay before a timeout is noticed. With Node's default of 30 seconds, a ten-second deadline could take forty.
 */
const CHECK_EVERY_MS = 1_000;
/** Longer than the idle timeouts of common load balancers, which must close first. */
const KEEP_ALIVE_MS = 72_000;
/** Pipelined requests of one connection that wait to be answered. */
const PIPELINED_MAX = 32;

/** What a client is told to wait while the event loop is late. */
const RETRY_AFTER_S = 5;

/** How long a connection with a too slow request lingers before it is closed for good. */
const SLOW_LINGER_MS = 1_000;

/** Returns the factory of the api's HTTP server, with the limits that the server enforces before there is a request. */
export function serverFactory(
  limits: HttpLimits,
  lingering: Lingering,
  latest: LatestRequests,
): (handler: RequestListener) => Server {
  return (handler) => {
    const server = createServer(
      {
        headersTimeout: limits.headersTimeoutMs,
        // Bodies have their own deadline, which depends on their size.
        requestTimeout: 0,
        connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersTimeoutMs),
        keepAliveTimeout: KEEP_ALIVE_MS,
        // Node's own refusal has no body; a hook sends ours.
        requireHostHeader: false,
      },
      closingGently(limits, lingering, latest, oneAfterTheOther(handler)),
    );
    server.on('connect', (request, socket) => refuseTunnel(request, socket as Socket, lingering));
    // For a client that neither sends nor reads; longer than any answer takes.
    server.setTimeout(3 * limits.requestTimeoutMs);
    server.maxConnections = limits.connectionsMax;
    return server;
  };
}

/**
 * Starts a request only after the previous one of its connection was answered. Otherwise all requests in a packet would
 * start at once, a thousand in one turn of the event loop, and each answer would wait in memory for a client that does not
 * read. While a request waits nothing more is read, and too many waiting requests close the connection.
 */
function oneAfterTheOther(handler: RequestListener): RequestListener {
  const waiting = new WeakMap<Socket, number>();
  return (request, response) => {
    const { socket } = request;
    // A response has its socket from the start unless an earlier response still uses the connection.
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

/** Lets a connection linger that is to be closed after an answer while its request is still arriving. */
function closingGently(
  limits: HttpLimits,
  lingering: Lingering,
  latest: LatestRequests,
  handler: RequestListener,
): RequestListener {
  return (request, response) => {
    const { socket } = request;
    if (lingering.has(socket)) return;
    const known = latest.get(socket);
    if (known === undefined) {
      const last: LatestRequest = { request, since: performance.now() };
      latest.set(socket, last);
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

/** The latest request of each connection. */
export type LatestRequests = WeakMap<Socket, LatestRequest>;
type LatestRequest = { request: IncomingMessage; since: number };

/** Refuses excess requests before any other work is done for them. */
export async function shedOverload(app: FastifyInstance, limits: HttpLimits): Promise<void> {
  await app.register(underPressure, {
    maxEventLoopDelay: limits.loopDelayMaxMs,
    pressureHandler: () => Promise.reject(overloaded(RETRY_AFTER_S)),
  });
}
