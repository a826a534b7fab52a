import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '#core/domain/fault/app-error.ts';
import type { RawBounds } from './read-body.ts';

/** Overrides the request's headers. */
const NO_BODY: IncomingHttpHeaders = {
  'content-type': undefined,
  'content-length': undefined,
  'transfer-encoding': undefined,
};

/**
 * Reads a body as raw bytes, before the framework looks for a parser of its content type.
 * @throws AppError: `unsupported_media_type` when it is compressed, and those of `BodyReader`.
 */
export async function readUnparsed(
  app: FastifyInstance,
  request: FastifyRequest,
  bounds: RawBounds,
): Promise<Buffer> {
  // Compressed bodies are refused: they could decompress to a thousand times their size.
  if (request.headers['content-encoding'] !== undefined) {
    throw new AppError('unsupported_media_type', { message: 'Content-Encoding must be absent' });
  }
  const body = await app.readRaw(request, bounds);
  request.headers = NO_BODY;
  request.bodyBytes = body.length;
  return body;
}
