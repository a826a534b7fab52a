import type { KeyObject } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { ServerResponse } from 'node:http';
import type { ErrorCode } from '#core/domain/fault/app-error.ts';
import type { Span } from '#core/platform/telemetry/telemetry.ts';
import type { Caller, RouteAuth } from '../../auth/auth.ts';
import type { RawBounds } from '../input/read-body.ts';
import type { RouteDocs } from './route.ts';

/** What the app adds to fastify's requests, routes and instance. */
declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller; null on open routes and before authentication. */
    caller: Caller | null;
    /** When the caller was admitted, on the monotonic clock; 0 before. */
    admittedAt: number;
    /** For how long the api has waited for the client to send its body, in milliseconds. */
    uploadMs: number;
    /** The client's own name: at most 64 characters of a safe alphabet. */
    appName: string | null;
    span: Span | null;
    response: ServerResponse | null;
    /** Size of the request's body; 0 until the body has been read. */
    bodyBytes: number;
    /** Code of the error that answered the request. */
    errorCode: ErrorCode | null;
    /** The message that the request is about. */
    messageId: string | null;
    /** The account to which a vendor reports; null for other requests and where the URL names no account. */
    reportedTo: { readonly tenantId: string; readonly providerId?: string } | null;
  }
  interface FastifyContextConfig {
    auth?: RouteAuth;
    docs?: RouteDocs;
    /** Returns how many bytes of a long body do not count towards the size limit. */
    exemptBytes?: (body: unknown) => number;
    /** Passes query and body as bytes. */
    isRaw?: true;
  }
  interface FastifyInstance {
    /** Reads a body of any type unchanged. */
    readRaw: (request: FastifyRequest, bounds: RawBounds) => Promise<Buffer>;
    /** Key of idempotency fingerprints. */
    fingerprintKey: KeyObject;
  }
}

/** Adds the fields of requests, with their first values. */
export function addRequestFields(app: FastifyInstance): void {
  app.decorateRequest('caller', null);
  app.decorateRequest('admittedAt', 0);
  app.decorateRequest('appName', null);
  app.decorateRequest('span', null);
  app.decorateRequest('errorCode', null);
  app.decorateRequest('messageId', null);
  app.decorateRequest('reportedTo', null);
  app.decorateRequest('bodyBytes', 0);
  app.decorateRequest('uploadMs', 0);
  app.decorateRequest('response', null);
}
