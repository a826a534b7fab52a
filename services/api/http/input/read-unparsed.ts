import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { IncomingHttpHeaders } from 'node:http';
import type { RawBounds } from './read-body.ts';
import { refuseEncoded } from './refuse-encoded.ts';

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
  refuseEncoded(request.headers);
  const body = await app.readRaw(request, bounds);
  request.headers = NO_BODY;
  request.bodyBytes = body.length;
  return body;
}
