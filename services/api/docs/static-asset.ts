import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { namesTag } from '../http/names-tag.ts';

export type StaticAssetOptions = {
  readonly contentType: string;
  /** How long a browser may use its copy without revalidation, in seconds. */
  readonly maxAgeSeconds: number;
  /** Produces the bytes, on the first request. */
  readonly load: () => Buffer | Promise<Buffer>;
};

export type SendAsset = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

type Encoding = 'br' | 'gzip' | 'identity';

const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);

/**
 * Serves bytes that never change while the process runs. They are produced and compressed once, on the first request, and
 * shared by all answers, so frequent requests and slow readers take no extra memory.
 */
export function staticAsset({ contentType, maxAgeSeconds, load }: StaticAssetOptions): SendAsset {
  const encoded = new Map<Encoding, Promise<Buffer>>();
  const original = once(encoded, 'identity', async () => load());
  const bytesAs = (encoding: Encoding): Promise<Buffer> =>
    once(encoded, encoding, async () => compress(encoding, await original()))();
  let etag: string | undefined;

  return async (request, reply) => {
    etag ??= `W/"${createHash('sha256')
      .update(await original())
      .digest('base64url')
      .slice(0, 22)}"`;
    reply.headers({
      'cache-control': `public, max-age=${maxAgeSeconds}`,
      etag,
      vary: 'accept-encoding',
      'x-content-type-options': 'nosniff',
    });
    if (namesTag(request.headers['if-none-match'], etag)) return reply.code(304).send();
    const encoding = encodingOf(request.headers['accept-encoding']);
    if (encoding !== 'identity') reply.header('content-encoding', encoding);
    return reply.type(contentType).send(await bytesAs(encoding));
  };
}

/** Runs the function once and shares its result; a failed run is not remembered. */
function once(
  made: Map<Encoding, Promise<Buffer>>,
  encoding: Encoding,
  make: () => Promise<Buffer>,
): () => Promise<Buffer> {
  return () => {
    const known = made.get(encoding);
    if (known !== undefined) return known;
    const making = make();
    made.set(encoding, making);
    making.catch(() => made.delete(encoding));
    return making;
  };
}

function compress(encoding: Encoding, bytes: Buffer): Promise<Buffer> | Buffer {
  switch (encoding) {
    case 'br':
      // Takes a sixth of a second for the largest asset, at nearly the best ratio.
      return compressBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } });
    case 'gzip':
      return compressGzip(bytes);
    case 'identity':
      return bytes;
  }
}

/** Returns the best encoding that a request accepts (RFC 9110, 12.5.3); an encoding with weight 0 is not accepted. */
function encodingOf(header: string | string[] | undefined): Encoding {
  const accepted = new Set(
    String(header ?? '')
      .toLowerCase()
      .split(',')
      .map((part) => part.split(';').map((piece) => piece.trim()))
      .filter(([, weight]) => weight === undefined || !/^q=0(\.0*)?$/.test(weight))
      .map(([name]) => name),
  );
  if (accepted.has('br')) return 'br';
  return accepted.has('gzip') ? 'gzip' : 'identity';
}
