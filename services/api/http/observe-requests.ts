import type { FastifyInstance } from 'fastify';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { beginSpan } from '#core/platform/telemetry/telemetry.ts';
import { badHost, badUrl } from './errors.ts';
import type { HttpMetrics } from './http-metrics.ts';
import { isGivenTwice } from './input/given-twice.ts';
import { observeEnd, routeOf, tenantOf } from './observe-end.ts';
import { firstHeader } from './input/first-header.ts';
import { standardHeaders } from './standard-headers.ts';

export type ObserveRequestsDeps = { readonly log: Logger; readonly metrics: HttpMetrics };

/** Begins a request's span and its fields, counts it, and refuses a host or a URL that cannot be read. */
export function observeRequests(app: FastifyInstance, deps: ObserveRequestsDeps): void {
  const { metrics } = deps;
  app.addHook('onRoute', ({ method, url, config }) => {
    if (config?.docs === undefined || typeof method !== 'string' || method === 'HEAD') return;
    metrics.routeKnown({ method, route: url, codes: [config.docs.status, 500, 503] });
  });
  app.addHook('onRequest', (request, reply, done) => {
    metrics.requestStarted();
    observeEnd(request, reply, deps);
    request.response = reply.raw;
    reply.headers(standardHeaders(request.id));
    request.appName = appNameOf(request.headers['x-app-name']);
    request.span = beginSpan(`${request.method} ${routeOf(request)}`, {
      kind: 'server',
      parent: firstHeader(request.headers['traceparent']),
      attributes: { 'http.request.method': request.method, 'http.route': routeOf(request) },
    });
    // Everything from here to the handler runs inside the span.
    request.span.run(done);
  });
  app.addHook('onRequest', ({ headers, raw }, _reply, done) => {
    const isMissing = headers.host === undefined && raw.httpVersion === '1.1';
    done(isMissing || isGivenTwice(raw, 'host') ? badHost() : undefined);
  });
  app.addHook('preValidation', (request, _reply, done) => {
    // A raw route parses its own query.
    done(request.routeOptions.config.isRaw === true || isDecodable(request.url) ? undefined : badUrl());
  });
  app.addHook('onSend', (request, reply, _payload, done) => {
    metrics.requestAnswered({
      method: request.method,
      route: routeOf(request),
      tenantId: tenantOf(request),
      keyId: request.caller?.kind === 'key' ? request.caller.key.id : null,
      statusCode: reply.statusCode,
      errorCode: request.errorCode,
      isReplay: reply.hasHeader('idempotent-replayed'),
    });
    done();
  });
}

function appNameOf(header: string | string[] | undefined): string | null {
  const name = String(header ?? '')
    .replace(/[^\x20-\x7e]/g, '')
    .trim()
    .slice(0, 64);
  return name === '' ? null : name;
}

function isDecodable(url: string): boolean {
  const query = url.indexOf('?');
  if (query === -1 || !url.includes('%', query)) return true;
  try {
    decodeURIComponent(url.slice(query + 1));
    return true;
  } catch {
    return false;
  }
}
