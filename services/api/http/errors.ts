import { STATUS_CODES, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import {
  AppError,
  ERROR_CODES,
  unavailable,
  validationFailed,
  type ErrorCode,
} from '#core/domain/fault/app-error.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import { challengeOf } from '../auth/challenge-of.ts';
import { pathOf } from './input/path-of.ts';
import type { Lingering } from './admission/lingering.ts';
import { newRequestId } from './routes/request-id.ts';
import { standardHeaders } from './standard-headers.ts';

/** The only place that maps a failure to an HTTP status. */
export const STATUS: Readonly<Record<ErrorCode, number>> = {
  validation_failed: 400,
  missing_field: 400,
  malformed_json: 400,
  provider_not_configured: 400,
  idempotency_key_conflict: 400,
  tenant_required: 400,
  invalid_cursor: 400,
  url_blocked: 400,
  unauthenticated: 401,
  api_key_expired: 401,
  api_key_revoked: 401,
  api_key_rotated: 401,
  tenant_suspended: 403,
  insufficient_role: 403,
  insufficient_scope: 403,
  plan_limit_reached: 403,
  not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  slug_taken: 409,
  idempotency_mismatch: 409,
  not_cancelable: 409,
  invalid_state: 409,
  last_owner: 409,
  managed_by_cluster: 409,
  version_mismatch: 412,
  rate_limited: 429,
  daily_limit_reached: 429,
  backlog_full: 429,
  internal_error: 500,
  dependency_unavailable: 503,
};

export const ErrorDetail = z
  .object({
    field: z.string().describe('Path of the field: names and positions, joined by dots.'),
    rule: z.string().describe('The broken rule, for programs.'),
    message: z.string().describe('The rule, for people.'),
  })
  .meta({ id: 'ErrorDetail', description: 'One broken rule.' });

export const ReachedLimit = z.object({ name: z.string(), value: z.int().min(0).max(INT32_MAX) }).meta({
  id: 'ReachedLimit',
  description:
    'The limit that was reached, with its name in plans and keys, and in the guide on limits. Present in each 429, and in a 403 `plan_limit_reached`.',
});

const ErrorBody = z
  .object({
    statusCode: z.int().min(400).max(599),
    timestamp: z.iso.datetime(),
    path: z.string().describe('Path of the request.'),
    message: z.string().describe('For people; may change.'),
    code: z.enum(ERROR_CODES as [ErrorCode, ...ErrorCode[]]).describe('For programs; does not change.'),
    requestId: z.string(),
    details: z.array(ErrorDetail).optional().describe('Faults by field. Never contains a value.'),
    limit: ReachedLimit.optional(),
  })
  .meta({ id: 'Error', description: 'Every error has this body.' });
type ErrorBody = z.infer<typeof ErrorBody>;

function errorBody(error: AppError, path: string, requestId: string): ErrorBody {
  return {
    statusCode: STATUS[error.code],
    timestamp: new Date().toISOString(),
    path,
    message: error.message,
    code: error.code,
    requestId,
    ...(error.details === undefined ? {} : { details: [...error.details] }),
    ...(error.limit === undefined ? {} : { limit: error.limit }),
  };
}

/** Sends the error without internal details. */
export function sendError(request: FastifyRequest, reply: FastifyReply, error: AppError): FastifyReply {
  request.errorCode = error.code;
  for (const [name, value] of Object.entries(error.headers ?? {})) reply.header(name, value);
  const status = STATUS[error.code];
  const { auth } = request.routeOptions.config;
  if (status === 401 && auth !== undefined) reply.header('www-authenticate', challengeOf(auth));
  if (status === 429 || status === 503)
    reply.header('retry-after', String(Math.max(1, error.retryAfter ?? 1)));
  return reply
    .code(status)
    .header('content-type', 'application/json; charset=utf-8')
    .serializer(JSON.stringify)
    .send(errorBody(error, shownPath(request.url), request.id));
}

/** The part of a receipt URL before its token. */
const BEFORE_TOKEN = /^(.*\/receipts\/[^/]*\/).+$/is;

/** Returns the path without query and without a token: a query may contain addresses. */
function shownPath(url: string): string {
  return pathOf(url).replace(BEFORE_TOKEN, '$1:token');
}

/**
 * Maps any thrown value to an error. Anything that must not be shown to the client becomes `internal_error`, with the cause
 * kept for the log.
 */
export function toAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  if (isDependencyFailure(error)) return unavailable(error);
  return fromFramework(error as FastifyError) ?? new AppError('internal_error', { cause: error });
}

function fromFramework(error: Partial<FastifyError> | null | undefined): AppError | undefined {
  switch (error?.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new AppError('payload_too_large');
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new AppError('unsupported_media_type');
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return validationFailed({
        field: 'Content-Length',
        rule: 'length',
        message: 'Does not match the body',
      });
    // Much longer than any id, so it matches nothing.
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new AppError('not_found');
    case 'FST_ERR_BAD_URL':
      return badUrl();
    case undefined:
    default:
      return undefined;
  }
}

/** Nobody reads this answer; it keeps a connection broken by the client from being logged as our fault. */
export function truncated(): AppError {
  return validationFailed({ field: 'body', rule: 'complete', message: 'Request ended before its body' });
}

/** The same for a client that disconnected before its answer was ready. */
export function abandoned(): AppError {
  return validationFailed({ field: 'request', rule: 'complete', message: 'Client has gone' });
}

/** The body arrived more slowly than any client needs to send. */
export function timedOut(): AppError {
  return validationFailed({ field: 'request', rule: 'complete', message: 'Request did not arrive in time' });
}

export function badUrl(): AppError {
  return validationFailed({ field: 'url', rule: 'encoding', message: 'Percent-encoding is not valid UTF-8' });
}

export function badHost(): AppError {
  return validationFailed({ field: 'Host', rule: 'required', message: 'HTTP/1.1 requires one Host header' });
}

/** Returns true when a dependency is unavailable or overloaded, as opposed to a fault of ours. */
function isDependencyFailure(error: unknown): boolean {
  if (databaseFaultOf(error) === 'away') return true;
  return error instanceof DependencyError || error instanceof QueueFullError;
}

/** For headers that were late or malformed; the client already had the full header timeout. */
const LINGER_MS = 2_000;

type ParserError = { readonly code?: string | undefined };

/**
 * Answers an error that Node's HTTP parser reports, mostly before there is a request.
 * @param latest the latest request of the connection.
 */
export function answerParserError(
  error: ParserError,
  socket: Socket,
  latest: IncomingMessage | undefined,
  lingering: Lingering,
): void {
  if (error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const url = latest?.complete === false ? latest.url : urlOf(error);
  writeError(socket, parserError(error.code), shownPath(url ?? ''), lingering);
}

/** Answers a CONNECT request, which Node does not pass on like others: the connection is handed over for a tunnel. */
export function refuseTunnel({ url = '' }: IncomingMessage, socket: Socket, lingering: Lingering): void {
  // Node has removed its own listeners.
  socket.on('error', () => socket.destroy()).resume();
  writeError(
    socket,
    new AppError('method_not_allowed', { headers: { allow: '' } }),
    shownPath(url),
    lingering,
  );
}

const REQUEST_LINE = /^[A-Z-]+ (\S+) HTTP\/1\.[01]\r\n/;

/** Returns the URL of a request whose headers are faulty, if they began in the latest packet. */
function urlOf(error: ParserError): string | undefined {
  // Node adds the packet that it was parsing, and how far it came.
  const { rawPacket, bytesParsed } = error as { rawPacket?: Buffer; bytesParsed?: number };
  const parsed = rawPacket?.toString('latin1', 0, bytesParsed) ?? '';
  const before = parsed.lastIndexOf('\r\n\r\n');
  return REQUEST_LINE.exec(before === -1 ? parsed : parsed.slice(before + 4))?.[1];
}

/** Answers over a connection that no response belongs to, and closes it. */
function writeError(socket: Socket, error: AppError, path: string, lingering: Lingering): void {
  if (lingering.has(socket)) return;
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = newRequestId();
  const status = STATUS[error.code];
  const body = JSON.stringify(errorBody(error, path, requestId));
  socket.write(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      ...Object.entries({ ...error.headers, ...standardHeaders(requestId) }).map(
        ([name, value]) => `${name}: ${value}`,
      ),
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
      '',
      body,
    ].join('\r\n'),
  );
  lingering.add(socket, undefined, LINGER_MS);
}

function parserError(code: string | undefined): AppError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new AppError('payload_too_large', { message: 'Request headers are too large' });
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return timedOut();
    case undefined:
    default:
      return validationFailed({ field: 'request', rule: 'http', message: 'Request is not valid HTTP/1.1' });
  }
}
