import type { KeyObject } from 'node:crypto';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { serializerCompiler } from 'fastify-type-provider-zod';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { AppError, limitReached } from '#core/domain/fault/app-error.ts';
import { UNSUBSCRIBE_TOKEN_MAX } from '#core/domain/recipient/unsubscribe-token.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import { beginSpan } from '#core/platform/telemetry/telemetry.ts';
import type { Admitted, Authenticate, Caller, RequestCredentials, Readmit } from './auth/auth.ts';
import {
  answerParserError,
  badHost,
  badUrl,
  sendError,
  STATUS,
  toAppError,
  truncated,
} from './http/errors.ts';
import {
  DEFAULT_HTTP_LIMITS,
  serverFactory,
  shedOverload,
  type HttpLimits,
  type LatestRequests,
} from './http/admission/http-limits.ts';
import { addRequestFields } from './http/routes/fastify-fields.ts';
import { createFaultLog } from './http/fault-log.ts';
import { isGivenTwice } from './http/input/given-twice.ts';
import { installHomePage } from './docs/home-page.ts';
import type { HttpMetrics } from './http/http-metrics.ts';
import { knownMethods, type KnownMethods } from './http/routes/known-methods.ts';
import { createLingering } from './http/admission/lingering.ts';
import { noRoom } from './http/admission/no-room.ts';
import { observeEnd, routeOf, tenantOf } from './http/observe-end.ts';
import { createMemoryBudget, type MemoryBudget } from './http/admission/memory-budget.ts';
import { installDocs } from './openapi/openapi.ts';
import { rateHeaders } from './http/rate-headers.ts';
import { tooLarge } from './http/input/too-large.ts';
import { requestIdOf } from './http/routes/request-id.ts';
import { createBodyReader, ownerOf, type BodyReader, type RequestMoments } from './http/input/read-body.ts';
import { inputCompiler } from './http/input/read-input.ts';
import type { RouteModule } from './http/routes/route.ts';
import { createSlowBodies } from './http/admission/slow-bodies.ts';

/** The default where a route does not set a limit. */
const BODY_BYTES_MAX = 1024 * 1024;
/** The length of the longest path parameter, an unsubscribe token. */
const PATH_PARAMETER_MAX = UNSUBSCRIBE_TOKEN_MAX;
/** An unread body up to this length is read to its end, so that the connection can be reused. */
const UNREAD_BYTES_MAX = 64 * 1024;
/** A caller whose body took longer, in milliseconds, is checked again before the handler runs. */
const READMIT_AFTER_MS = 500;
/** Smaller answers take no more memory than their request did, so they are not counted. */
const ANSWER_BYTES_MIN = 16 * 1024;

export type AppDeps = {
  readonly authenticate: Authenticate;
  readonly readmit: Readmit;
  readonly log: Logger;
  readonly metrics: HttpMetrics;
  /** HMAC key of idempotency fingerprints. */
  readonly fingerprintKey: KeyObject;
  /** The proxies whose forwarded headers are trusted: fastify's `trustProxy`. */
  readonly trustProxy: boolean | readonly string[];
  readonly limits?: HttpLimits;
  /** Server URL in the OpenAPI document. */
  readonly publicBaseUrl: string;
};

/**
 * Builds the HTTP application. Does no I/O of its own: tests use `inject`, `main.ts` listens.
 * @param modules The routes, with their dependencies.
 */
export async function buildApp(deps: AppDeps, modules: readonly RouteModule[]): Promise<FastifyInstance> {
  const { limits = DEFAULT_HTTP_LIMITS } = deps;
  const lingering = createLingering();
  const latest: LatestRequests = new WeakMap();
  const memory = createMemoryBudget(limits.memoryBytesMax);
  const slow = createSlowBodies({
    graceMs: limits.requestTimeoutMs,
    bytesPerSecondMin: limits.bodyBytesPerSecondMin,
  });
  deps.metrics.requestMemory.from(memory.taken);
  const app = fastify({
    serverFactory: serverFactory(limits, lingering, latest),
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    trustProxy: typeof deps.trustProxy === 'boolean' ? deps.trustProxy : [...deps.trustProxy],
    genReqId: requestIdOf,
    clientErrorHandler: (error, socket) =>
      answerParserError(error, socket, latest.get(socket)?.request, lingering),
    frameworkErrors: (error, request, reply) => {
      reply.header('x-request-id', request.id);
      void sendError(request, reply, toAppError(error));
    },
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: PATH_PARAMETER_MAX },
  });
  app.setValidatorCompiler(inputCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.decorate('fingerprintKey', deps.fingerprintKey);
  addRequestFields(app);
  readBodies(app, createBodyReader({ memory, slow, onRefused: deps.metrics.bodyRefused }));
  const known = knownMethods(app);
  const answerUnknown = answerFaults(app, known, deps.log);
  observeRequests(app, deps);
  leaveBodies(app, limits);
  boundAnswers(app, memory, () => deps.metrics.bodyRefused('answer'));
  await shedOverload(app, limits);
  refuseUnknown(app, known, answerUnknown);
  admitRequests(app, deps.authenticate);
  readmitRequests(app, deps.readmit);
  meetExpectations(app);
  app.addHook('preClose', (done) => {
    lingering.end();
    slow.stop();
    done();
  });
  installDocs(app, deps.publicBaseUrl);
  installHomePage(app);
  for (const addRoutes of modules) addRoutes(app);
  return app;
}

/**
 * Node answers an unknown `Expect` with a bare 417; RFC 9110 lets a server ignore it. A client that waits for
 * `100-continue` gets it when the body is about to be read.
 */
function meetExpectations({ server }: FastifyInstance): void {
  for (const expectation of ['checkContinue', 'checkExpectation']) {
    server.on(expectation, (request, response) => server.emit('request', request, response));
  }
}

function readBodies(app: FastifyInstance, reader: BodyReader): void {
  const onAnswer = new WeakMap<FastifyRequest, () => void>();
  app.addHook('onSend', (request, _reply, _payload, done) => {
    onAnswer.get(request)?.();
    done();
  });
  const momentsOf = (request: FastifyRequest) => requestMoments(request, onAnswer);
  app.decorate('readRaw', (request, bounds) => reader.raw(request, bounds, momentsOf(request)));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (encoding.toLowerCase() !== 'identity') {
      const message = 'Content-Encoding must be absent or identity';
      throw new AppError('unsupported_media_type', { message });
    }
    const body = await reader.json(request, momentsOf(request));
    request.bodyBytes = body.bytes;
    const exempt = request.routeOptions.config.exemptBytes;
    if (body.bytes > BODY_BYTES_MAX && body.bytes - (exempt?.(body.value) ?? 0) > BODY_BYTES_MAX) {
      throw tooLarge(BODY_BYTES_MAX, exempt === undefined ? '' : ' besides the contents of attachments');
    }
    return body.value;
  });
}

/** @param onAnswer what to call when a request's answer is made. */
function requestMoments(
  request: FastifyRequest,
  onAnswer: WeakMap<FastifyRequest, () => void>,
): RequestMoments {
  const response = request.response as ServerResponse;
  const ended = (then: () => void): void => {
    if (response.closed) then();
    else response.on('close', then);
  };
  return {
    begin: () => {
      if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
    },
    ended,
    answered(then) {
      let isCalled = false;
      const once = (): void => {
        if (!isCalled) then();
        isCalled = true;
      };
      onAnswer.set(request, once);
      ended(once);
    },
    isOver: () => response.closed,
  };
}

type AnswerUnknown = (request: FastifyRequest, reply: FastifyReply) => FastifyReply;

function answerFaults(app: FastifyInstance, known: KnownMethods, log: Logger): AnswerUnknown {
  const logFault = createFaultLog(log);
  const answerUnknown: AnswerUnknown = (request, reply) => {
    const methods = known.of(request.url);
    if (methods === undefined) return sendError(request, reply, new AppError('route_not_found'));
    const allow = methods.join(', ');
    if (request.method === 'OPTIONS') return reply.code(204).header('allow', allow).send();
    return sendError(request, reply, new AppError('method_not_allowed', { headers: { allow } }));
  };
  app.setNotFoundHandler(answerUnknown);
  app.setErrorHandler((error, request, reply) => {
    // An unknown route answers 404, whatever else is wrong with the request.
    if (request.is404) return answerUnknown(request, reply);
    const { raw } = request;
    const answer = raw.destroyed && !raw.complete ? truncated() : toAppError(error);
    if (STATUS[answer.code] >= 500 && !isShed(error)) {
      logFault({ event: 'request.failed', requestId: request.id, route: routeOf(request) }, error);
    }
    return sendError(request, reply, answer);
  });
  return answerUnknown;
}

/** Requests shed under overload are not faults, and they are too many to log as such. */
function isShed(error: unknown): boolean {
  return error instanceof QueueFullError || (error instanceof AppError && error.isShed);
}

function observeRequests(app: FastifyInstance, deps: AppDeps): void {
  const { metrics } = deps;
  app.addHook('onRoute', ({ method, url, config }) => {
    if (config?.docs === undefined || typeof method !== 'string' || method === 'HEAD') return;
    metrics.routeKnown({ method, route: url, codes: [config.docs.status, 500, 503] });
  });
  app.addHook('onRequest', (request, reply, done) => {
    metrics.requestStarted();
    observeEnd(request, reply, deps);
    request.response = reply.raw;
    reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
    request.appName = appNameOf(request.headers['x-app-name']);
    request.span = beginSpan(`${request.method} ${routeOf(request)}`, {
      kind: 'server',
      parent: one(request.headers['traceparent']),
      attributes: { 'http.request.method': request.method, 'http.route': routeOf(request) },
    });
    // Everything from here to the handler runs inside the span.
    request.span.run(done);
  });
  app.addHook('onRequest', ({ headers, raw }, _reply, done) => {
    const isMissing = headers.host === undefined && raw.httpVersion === '1.1';
    done(isMissing || isGivenTwice(raw, 'host') ? badHost() : undefined);
  });
  app.addHook('preValidation', (request, _reply, done) => {
    // A raw route parses its own query.
    done(request.routeOptions.config.isRaw === true || isDecodable(request.url) ? undefined : badUrl());
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    metrics.requestAnswered({
      method: request.method,
      route: routeOf(request),
      tenantId: tenantOf(request),
      keyId: request.caller?.kind === 'key' ? request.caller.key.id : null,
      statusCode: reply.statusCode,
      errorCode: request.errorCode,
      isReplay: reply.hasHeader('idempotent-replayed'),
    });
    done();
  });
}

function appNameOf(header: string | string[] | undefined): string | null {
  const name = String(header ?? '')
    .replace(/[^\x20-\x7e]/g, '')
    .trim()
    .slice(0, 64);
  return name === '' ? null : name;
}

function isDecodable(url: string): boolean {
  const query = url.indexOf('?');
  if (query === -1 || !url.includes('%', query)) return true;
  try {
    decodeURIComponent(url.slice(query + 1));
    return true;
  } catch {
    return false;
  }
}

/** The body of a request to an unknown route is not read. */
function refuseUnknown(app: FastifyInstance, known: KnownMethods, answerUnknown: AnswerUnknown): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404 || known.isMistaken(request)) answerUnknown(request, reply);
    else done();
  });
}

/**
 * Handles an unread body after its request was answered: a short one is read to its end within a time limit; for a longer
 * one the answer announces that the connection closes.
 */
function leaveBodies(app: FastifyInstance, { requestTimeoutMs }: HttpLimits): void {
  app.addHook('onSend', ({ raw }, reply, _payload, done) => {
    if (!raw.complete && isLong(raw.headers)) reply.header('connection', 'close');
    done();
  });
  app.addHook('onResponse', ({ raw }, _reply, done) => {
    if (!raw.complete) {
      setTimeout(() => {
        if (!raw.complete) raw.destroy();
      }, requestTimeoutMs).unref();
    }
    done();
  });
}

function isLong(headers: IncomingHttpHeaders): boolean {
  return (
    headers['transfer-encoding'] !== undefined ||
    headers.expect !== undefined ||
    Number(headers['content-length'] ?? 0) > UNREAD_BYTES_MAX
  );
}

/**
 * Charges a long answer to the caller's memory budget until the client has read it. The answer to a completed change is
 * always sent.
 */
function boundAnswers(app: FastifyInstance, memory: MemoryBudget, onRefused: () => void): void {
  app.addHook('onSend', (request, reply, payload, done) => {
    const bytes = typeof payload === 'string' ? payload.length : 0;
    if (bytes < ANSWER_BYTES_MIN || request.caller === null || request.method !== 'GET') return done();
    const reservation = memory.reserve(ownerOf(request), bytes);
    if (reservation === undefined) {
      onRefused();
      return done(noRoom());
    }
    reply.raw.once('close', reservation.release);
    done();
  });
}

/** Authenticates before the body is read, so that an unauthorized caller learns nothing from body validation. */
function admitRequests(app: FastifyInstance, authenticate: Authenticate): void {
  // Uses callbacks instead of promises, so that a cached key is admitted without another turn of the event loop.
  app.addHook('onRequest', (request, reply, done) => {
    const { auth } = request.routeOptions.config;
    if (auth === undefined || auth.kind === 'none') return done();
    const settle = (admitted: Admitted): void => done(admit(request, reply, admitted));
    try {
      const admitted = authenticate(auth, credentialsOf(request));
      if (admitted instanceof Promise) admitted.then(settle, done);
      else settle(admitted);
    } catch (error) {
      done(error as Error);
    }
  });
}

/** Checks a caller again whose body took long, so that nothing happens for a key or a member that was removed meanwhile. */
function readmitRequests(app: FastifyInstance, readmit: Readmit): void {
  app.addHook('preValidation', (request, _reply, done) => {
    const { auth } = request.routeOptions.config;
    const { caller, admittedAt } = request;
    if (auth === undefined || caller === null || performance.now() - admittedAt < READMIT_AFTER_MS)
      return done();
    const settle = (found: Caller): void => {
      request.caller = found;
      done();
    };
    try {
      const found = readmit(caller, auth, credentialsOf(request));
      if (found instanceof Promise) found.then(settle, done);
      else settle(found);
    } catch (error) {
      done(error as Error);
    }
  });
}

function credentialsOf(request: FastifyRequest): RequestCredentials {
  const { headers, method } = request;
  const { auth } = request.routeOptions.config;
  const changesNothing = auth !== undefined && 'changesNothing' in auth;
  return {
    serviceKey: one(headers['x-service-key']),
    authorization: soleAuthorization(request),
    tenantSlug: one(headers['x-tenant-slug']),
    isWrite: method !== 'GET' && method !== 'HEAD' && !changesNothing,
  };
}

/** Node's parser silently keeps the first of several headers; a proxy in front may have used another one. */
function soleAuthorization({ headers, raw }: FastifyRequest): string | undefined {
  return headers.authorization === undefined || isGivenTwice(raw, 'authorization')
    ? undefined
    : headers.authorization;
}

/** Notes who calls and what is left of the caller's rate. Returns the error for a rate that is exceeded. */
function admit(
  request: FastifyRequest,
  reply: FastifyReply,
  { caller, rate }: Admitted,
): AppError | undefined {
  request.caller = caller;
  request.admittedAt = performance.now();
  if (rate === undefined) return undefined;
  reply.headers(rateHeaders(rate));
  if (rate.passed) return undefined;
  const { name, limit: value, retryAfter } = rate;
  return limitReached('rate_limited', { name, value }, { retryAfter });
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
