import type { ApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import type { UncountedSends } from '../auth/uncounted-sends.ts';
import type { HttpMetrics } from '../http/http-metrics.ts';

const SENDS: ReadonlySet<string> = new Set(['/v1/messages', '/v1/messages/batch']);

/** Returns the metrics of requests, which also count sends that never reached the accept path, and sends that no limit counted. */
export function observeSends(metrics: ApiMetrics, uncounted: Pick<UncountedSends, 'note'>): HttpMetrics {
  return {
    routeKnown: metrics.routeKnown,
    requestMemory: metrics.requestMemory,
    bodyRefused: metrics.bodyRefused,
    requestStarted: metrics.requestStarted,
    requestFinished: metrics.requestFinished,
    requestAnswered(request: Parameters<HttpMetrics['requestAnswered']>[0]): void {
      const { method, route, statusCode, keyId, errorCode, isReplay } = request;
      if (method !== 'POST' || !SENDS.has(route)) return;
      if (statusCode === 400) metrics.rejected('validation', request.tenantId);
      // A send refused with `rate_limited` did no further work, so it is not counted. Of a batch this counts
      // the request; its messages are counted where it is handled.
      const isRefused = statusCode >= 400 && statusCode < 500 && errorCode !== 'rate_limited';
      if (keyId !== null && (isReplay || isRefused)) uncounted.note(keyId);
    },
  };
}
