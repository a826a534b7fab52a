import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '#core/domain/fault/app-error.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { sendError, STATUS, toAppError, truncated } from './errors.ts';
import { createFaultLog } from './fault-log.ts';
import { routeOf } from './observe-end.ts';
import type { KnownMethods } from './routes/known-methods.ts';

export type AnswerUnknown = (request: FastifyRequest, reply: FastifyReply) => FastifyReply;

/**
 * Answers errors, and requests to unknown routes.
 * @returns what answers the latter.
 */
export function answerFaults(app: FastifyInstance, known: KnownMethods, log: Logger): AnswerUnknown {
  const logFault = createFaultLog(log);
  const answerUnknown: AnswerUnknown = (request, reply) => {
    const methods = known.of(request.url);
    if (methods === undefined) return sendError(request, reply, new AppError('route_not_found'));
    const allow = methods.join(', ');
    if (request.method === 'OPTIONS') return reply.code(204).header('allow', allow).send();
    return sendError(request, reply, new AppError('method_not_allowed', { headers: { allow } }));
  };
  app.setNotFoundHandler(answerUnknown);
  app.setErrorHandler((error, request, reply) => {
    // An unknown route answers 404, whatever else is wrong with the request.
    if (request.is404) return answerUnknown(request, reply);
    const { raw } = request;
    const answer = raw.destroyed && !raw.complete ? truncated() : toAppError(error);
    if (STATUS[answer.code] >= 500 && !isShed(error)) {
      logFault({ event: 'request.failed', requestId: request.id, route: routeOf(request) }, error);
    }
    return sendError(request, reply, answer);
  });
  return answerUnknown;
}

/** Requests shed under overload are not faults, and they are too many to log as such. */
function isShed(error: unknown): boolean {
  return error instanceof QueueFullError || (error instanceof AppError && error.isShed);
}

/** Answers requests to unknown routes before their body is read. */
export function refuseUnknown(app: FastifyInstance, known: KnownMethods, answerUnknown: AnswerUnknown): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (request.is404 || known.isMistaken(request)) answerUnknown(request, reply);
    else done();
  });
}
