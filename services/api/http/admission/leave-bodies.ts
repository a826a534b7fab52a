import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { HttpLimits } from './http-limits.ts';

/** An unread body up to this length is read to its end, so that the connection can be reused. */
const UNREAD_BYTES_MAX = 64 * 1024;

/**
 * Handles an unread body after its request was answered: a short one is read to its end within a time limit; for a longer
 * one the answer announces that the connection closes.
 */
export function leaveBodies(app: FastifyInstance, { requestTimeoutMs }: HttpLimits): void {
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
