import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BodyReader, RequestMoments } from './read-body.ts';
import { refuseEncoded } from './refuse-encoded.ts';
import { tooLarge } from './too-large.ts';

/** The default where a route does not set a limit. */
export const BODY_BYTES_MAX = 1024 * 1024;

/** Has bodies read by the reader: JSON before the handler, others when the handler asks for them. */
export function readBodies(app: FastifyInstance, reader: BodyReader): void {
  const onAnswer = new WeakMap<FastifyRequest, () => void>();
  app.addHook('onSend', (request, _reply, _payload, done) => {
    onAnswer.get(request)?.();
    done();
  });
  const momentsOf = (request: FastifyRequest) => requestMoments(request, onAnswer);
  app.decorate('readRaw', (request, bounds) => reader.raw(request, bounds, momentsOf(request)));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (request: FastifyRequest) => {
    refuseEncoded(request.headers);
    const body = await reader.json(request, momentsOf(request));
    request.bodyBytes = body.bytes;
    const exempt = request.routeOptions.config.exemptBytes;
    if (body.bytes > BODY_BYTES_MAX && body.bytes - (exempt?.(body.value) ?? 0) > BODY_BYTES_MAX) {
      throw tooLarge(BODY_BYTES_MAX, exempt === undefined ? '' : ' besides the contents of attachments');
    }
    return body.value;
  });
}

/** @param onAnswer what to call when a request's answer is made. */
function requestMoments(
  request: FastifyRequest,
  onAnswer: WeakMap<FastifyRequest, () => void>,
): RequestMoments {
  const response = request.response as ServerResponse;
  const ended = (then: () => void): void => {
    if (response.closed) then();
    else response.on('close', then);
  };
  return {
    begin: () => {
      if (request.headers.expect?.toLowerCase() === '100-continue') response.writeContinue();
    },
    ended,
    answered(then) {
      let isCalled = false;
      const once = (): void => {
        if (!isCalled) then();
        isCalled = true;
      };
      onAnswer.set(request, once);
      ended(once);
    },
    isOver: () => response.closed,
  };
}
