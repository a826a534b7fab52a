import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '#core/domain/fault/app-error.ts';

/** The only coding of bodies: none (RFC 9110, 8.4.1). */
const IDENTITY = 'identity';

/**
 * Refuses a compressed body: it could decompress to a thousand times its size.
 * @throws AppError `unsupported_media_type`, with the accepted coding in `Accept-Encoding` (RFC 9110, 15.5.16).
 */
export function refuseEncoded({ 'content-encoding': encoding = IDENTITY }: IncomingHttpHeaders): void {
  if (encoding.toLowerCase() === IDENTITY) return;
  throw new AppError('unsupported_media_type', {
    message: 'Content-Encoding must be absent or identity',
    headers: { 'accept-encoding': IDENTITY },
  });
}
