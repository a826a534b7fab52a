import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { HttpMetrics } from './http-metrics.ts';

/** Status in log and metrics of a request whose client disconnected before the answer. It is never sent. */
const ABANDONED = 499;

export type ObserveEndDeps = {
  readonly log: Logger;
  readonly metrics: Pick<HttpMetrics, 'requestFinished'>;
};

/**
 * Counts and logs a request when it ends, and ends its span. Its time leaves out what the client took to send its body: a slow
 * client is no slow api. Two kinds have no time: a client that disconnects before its body is complete did not wait for the api, and
 * refusals are so quick that a flood of them would hide slow answers. Does not use fastify's `onResponse`, which never runs for a
 * client that disconnects before its answer.
 */
export function observeEnd(
  request: FastifyRequest,
  reply: FastifyReply,
  { log, metrics }: ObserveEndDeps,
): void {
  const startedAt = performance.now();
  const { raw: response } = reply;
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    const milliseconds = performance.now() - startedAt;
    const statusCode = response.writableFinished ? reply.statusCode : ABANDONED;
    const { method } = request;
    const route = routeOf(request);
    const tenantId = tenantOf(request);
    request.span?.set({ 'http.response.status_code': statusCode });
    if (statusCode >= 500) request.span?.fail(`http_${statusCode}`);
    request.span?.end();
    const isTimed = statusCode === ABANDONED ? request.raw.complete : !isRefusal(statusCode);
    const { uploadMs } = request;
    const seconds = isTimed ? (milliseconds - uploadMs) / 1000 : null;
    metrics.requestFinished({ method, route, statusCode, seconds });
    log.info(
      {
        event: 'request',
        requestId: request.id,
        method,
        route,
        statusCode,
        durationMs: Math.round(milliseconds * 10) / 10,
        ...(uploadMs < 1 ? {} : { uploadMs: Math.round(uploadMs * 10) / 10 }),
        ...(request.errorCode === null ? {} : { code: request.errorCode }),
        ...(request.messageId === null ? {} : { messageId: request.messageId }),
        ...(tenantId === null ? request.reportedTo : { tenantId }),
        ...(request.appName === null ? {} : { appName: request.appName }),
      },
      'Request',
    );
  };
  response.on('finish', end).on('close', end);
}

function isRefusal(statusCode: number): boolean {
  return statusCode >= 400 && statusCode < 500;
}

export function tenantOf({ caller }: FastifyRequest): string | null {
  return caller !== null && 'tenant' in caller ? caller.tenant.id : null;
}

export function routeOf(request: FastifyRequest): string {
  return request.is404 ? 'unknown' : (request.routeOptions.url ?? 'unknown');
}
