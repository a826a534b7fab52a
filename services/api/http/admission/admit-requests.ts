import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { limitReached, type AppError } from '#core/domain/fault/app-error.ts';
import type { Admitted, Authenticate, Caller, Readmit, RequestCredentials } from '../../auth/auth.ts';
import { firstHeader } from '../input/first-header.ts';
import { isGivenTwice } from '../input/given-twice.ts';
import { rateHeaders } from '../rate-headers.ts';

/** A caller whose body took longer, in milliseconds, is checked again before the handler runs. */
const READMIT_AFTER_MS = 500;

/** Authenticates before the body is read, so that an unauthorized caller learns nothing from body validation. */
export function admitRequests(app: FastifyInstance, authenticate: Authenticate): void {
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
export function readmitRequests(app: FastifyInstance, readmit: Readmit): void {
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
    serviceKey: firstHeader(headers['x-service-key']),
    authorization: wholeAuthorization(request),
    tenantSlug: firstHeader(headers['x-tenant-slug']),
    isWrite: method !== 'GET' && method !== 'HEAD' && !changesNothing,
  };
}

/**
 * Node's parser silently keeps the first of several of these headers; a proxy in front may have used another one. Joined by a
 * comma, as the parser does with other headers, they are no valid credential.
 */
function wholeAuthorization({ headers, raw }: FastifyRequest): string | undefined {
  const { authorization } = headers;
  if (authorization === undefined || !isGivenTwice(raw, 'authorization')) return authorization;
  const isName = (i: number): boolean => raw.rawHeaders[i]?.toLowerCase() === 'authorization';
  return raw.rawHeaders.filter((_, i) => i % 2 === 1 && isName(i - 1)).join(', ');
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
