import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '#core/domain/app-error.ts';
import type { RawBounds } from './read-body.ts';

/** Laid over what a request came with. */
const NO_BODY: IncomingHttpHeaders = {
  'content-type': undefined,
  'content-length': undefined,
  'transfer-encoding': undefined,
};

/**
 * Reads a body byte for byte, before the framework would ask for a parser of its type.
 * @throws AppError: `unsupported_media_type` where it is packed, and those of `BodyReader`.
 */
export async function readUnparsed(
  app: FastifyInstance,
  request: FastifyRequest,
  bounds: RawBounds,
): Promise<Buffer> {
  // Nothing is unpacked that may be a thousand times as large then.
  if (request.headers['content-encoding'] !== undefined) {
    throw new AppError('unsupported_media_type', { message: 'Content-Encoding must be absent' });
  }
  const body = await app.readRaw(request, bounds);
  request.headers = NO_BODY;
  request.bodyBytes = body.length;
  return body;
}
