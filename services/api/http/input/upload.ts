import { Socket } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AppError } from '#core/domain/fault/app-error.ts';
import { ownerOf } from './read-body.ts';
import { readUnparsed } from './read-unparsed.ts';

/** The files that a route accepts. */
export type UploadRules = {
  /** Media types in lower case, without parameters, each with an example for the OpenAPI document. */
  readonly types: Readonly<Record<string, string>>;
  readonly bytesMax: number;
};

/** An uploaded file, unchanged. */
export type Upload = { readonly type: string; readonly bytes: Buffer };

/** Maximum processing time after the file has arrived: longer than any other answer takes. */
const WORK_MS_MAX = 15 * 60_000;

/**
 * Reads the file of a request. Its type is checked before its bytes are read; its memory is reserved like that of any body.
 * @throws AppError `unsupported_media_type`, `payload_too_large` and those of `readUnparsed`.
 */
export async function takeUpload(
  app: FastifyInstance,
  request: FastifyRequest,
  { types, bytesMax }: UploadRules,
): Promise<Upload> {
  const type = typeOf(request.headers['content-type'] ?? '', types);
  const bytes = await readUnparsed(app, request, { owner: ownerOf(request), bytesMax, isPaced: true });
  const { socket } = request.raw;
  // Node resets the timeout before the connection's next request. An injected request has no such socket.
  if (socket instanceof Socket) socket.setTimeout(WORK_MS_MAX);
  return { type, bytes };
}

function typeOf(header: string, types: UploadRules['types']): string {
  const [type = '', ...parameters] = header.toLowerCase().split(';');
  const named = type.trim();
  if (!Object.hasOwn(types, named)) {
    const message = `Content-Type must be ${Object.keys(types).join(' or ')}`;
    throw new AppError('unsupported_media_type', { message });
  }
  const charset = parameters.map((one) => /^\s*charset="?([^"\s]*)"?\s*$/.exec(one)?.[1]).find(Boolean);
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    throw new AppError('unsupported_media_type', { message: 'The charset must be utf-8' });
  }
  return named;
}
