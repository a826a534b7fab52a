import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { MonotonicClock } from '#core/domain/clock.ts';
import type { Exposition } from '../telemetry/base-metrics.ts';
import { SAMPLE_DEADLINE_MS, type Sampled } from '../telemetry/sampled-metrics.ts';
import { within } from './deadline.ts';
import { shareAnswer } from './share-answer.ts';

/** Names of the failing checks, for example `database`; empty means ready. */
export type Readiness = { readonly failing: readonly string[] };

export type HealthOptions = {
  readonly host: string;
  /** 0 selects any free port. */
  readonly port: number;
  readonly metrics: { readonly expose: () => Promise<Exposition>; readonly ready: Sampled };
  /**
   * Whether the process should get traffic. No answer within two seconds means no. It is asked for each request, so that an end
   * shows at once; what it asks of others is to be shared (`shareAnswer`, `READINESS_KEPT_MS`).
   */
  readonly ready: () => Readiness | Promise<Readiness>;
  /** False requests a restart. It must never depend on another service. Default: true. */
  readonly live?: () => boolean;
  readonly monotonicMs?: MonotonicClock;
};

export type HealthServer = AsyncDisposable & { readonly port: number };

const READY_DEADLINE_MS = 2_000;
/** Before a sample's own deadline, after which the gauge would have no value: a check that hangs is to show as 0. */
const READY_SAMPLE_DEADLINE_MS = SAMPLE_DEADLINE_MS - 250;

/**
 * How long an exposition is served after it was made. Shorter than any scrape interval, so that each of several Prometheus
 * replicas gets values of its own moment.
 */
export const EXPOSITION_KEPT_MS = 1_000;

/** How long the answer of a readiness check that asks the database is given again. */
export const READINESS_KEPT_MS = 1_000;

/** Open connections: probes, a few Prometheus replicas, and people who look. */
export const CONNECTIONS_MAX = 128;

/**
 * Serves `/healthz`, `/readyz` and `/metrics` on a port of its own, which no ingress publishes. Callers have no credentials, so
 * what they cost the database does not grow with their number: all share one exposition at a time, and connections are few.
 */
export async function openHealthServer(options: HealthOptions): Promise<HealthServer> {
  options.metrics.ready.from(async () => {
    const { failing } = await readiness(options.ready, READY_SAMPLE_DEADLINE_MS);
    return failing.length === 0 ? 1 : 0;
  });
  const expose = shareAnswer(options.metrics.expose, EXPOSITION_KEPT_MS, options.monotonicMs);
  const server = createServer((request, response) => {
    answer(request, { ...options, metrics: { ...options.metrics, expose } }).then(
      (reply) => send(response, reply),
      () => send(response, { status: 500, type: 'text/plain', body: 'failed\n' }),
    );
  });
  server.requestTimeout = 10_000;
  server.headersTimeout = 5_000;
  boundConnections(server);
  server.listen(options.port, options.host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Closes the oldest connection for each one too many: a refusal of new ones would let idle callers lock the kubelet out. */
function boundConnections(server: Server): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (oldest === undefined || open.size <= CONNECTIONS_MAX) return;
    open.delete(oldest);
    oldest.destroy();
  });
}

type Reply = { readonly status: number; readonly type: string; readonly body: string };

async function answer(request: IncomingMessage, options: HealthOptions): Promise<Reply> {
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return json(405, { status: 'method_not_allowed' });
  const [path = ''] = (request.url ?? '').split('?', 1);
  switch (path) {
    case '/healthz':
      return options.live?.() === false ? json(503, { status: 'failing' }) : json(200, { status: 'ok' });
    case '/readyz': {
      const { failing } = await readiness(options.ready, READY_DEADLINE_MS);
      return failing.length === 0
        ? json(200, { status: 'ready' })
        : json(503, { status: 'not_ready', failing });
    }
    case '/metrics': {
      const { contentType, text } = await options.metrics.expose();
      return { status: 200, type: contentType, body: text };
    }
    default:
      return json(404, { status: 'not_found' });
  }
}

function readiness(ready: HealthOptions['ready'], deadlineMs: number): Promise<Readiness> {
  const failed = (): Readiness => ({ failing: ['readiness_check'] });
  return within(Promise.resolve().then(ready), deadlineMs, failed).catch(failed);
}

function json(status: number, body: object): Reply {
  return { status, type: 'application/json', body: JSON.stringify(body) };
}

function send(response: ServerResponse, { status, type, body }: Reply): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
  });
  // Node sends no body in answer to a HEAD request.
  response.end(body);
}
