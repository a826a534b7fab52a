import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { postgresMoments } from '../support/postgres-moments.ts';
import { stackProcess } from '../support/stack-servers.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import type { Servers } from './servers.ts';
import { superviseService, type SupervisedService } from './supervised-service.ts';

/** One service process and the proxies that it reaches its servers through. */
export type Node = {
  readonly service: SupervisedService;
  readonly database: TcpProxy;
  readonly broker: TcpProxy;
  /** Moves its wall clock. */
  readonly setClock: (offsetMs: number) => Promise<void>;
};

/** Beside a call's deadline as much again as a slow machine needs to find what another worker has claimed. */
export const LEASE_MS = 5_000;
const DEADLINE_MS = 1_500;
/** Of deliveries: four deadlines, and what a worker adds for their records. */
export const DELIVERY_LEASE_MS = 4 * DEADLINE_MS + 5_000;

const STATEMENT_MS = 3_000;
const TRACED = 0.02;
const CLOCK = fileURLToPath(new URL('shifted-clock.ts', import.meta.url));
/** Functions of the schema whose calls are moments. */
const WATCHED = [
  'accept',
  'claim',
  'complete',
  'store_receipt_calls',
  'settle_receipt_calls',
  'record_receipts',
  'fail_over_silent',
  'append_matches',
  'claim_deliveries',
  'complete_deliveries',
];

/** @param stack owns what is started. */
export async function openNode(
  kind: 'api' | 'worker',
  name: string,
  servers: Servers,
  folder: string,
  stack: AsyncDisposableStack,
): Promise<Node> {
  const [database, broker, ports] = await Promise.all([
    startTcpProxy(servers.postgres.port, () => postgresMoments(WATCHED)),
    startTcpProxy(servers.nats.port, () => natsMoments),
    choosePorts(true),
  ]);
  stack.use(database);
  stack.use(broker);
  const clock = join(folder, `${name}.clock`);
  const url = new URL(servers.databaseUrl);
  url.port = String(database.port);
  const service = await superviseService(
    stackProcess(servers, {
      kind,
      name,
      folder,
      ports,
      providerUrls: servers.providerUrls[name] ?? {},
      databaseUrl: url.href,
      natsUrl: `nats://127.0.0.1:${broker.port}`,
      environment: {
        ...(kind === 'worker' ? WORKER_SETTINGS : {}),
        PUBLIC_BASE_URL,
        // The same for all, as for the processes that follow each other in one pod.
        WORKER_NAME: 'worker',
        LOG_LEVEL: 'debug',
        DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_MS),
        OTEL_EXPORTER_OTLP_ENDPOINT: servers.traces.origin,
        OTEL_TRACES_SAMPLE_RATIO: String(TRACED),
        // Processes that start every few seconds need not compile the same code each time.
        NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(folder, 'compiled'),
        NODE_OPTIONS: `--import=${CLOCK}`,
        CLOCK_FILE: clock,
      },
    }),
  );
  stack.use(service);
  return { service, database, broker, setClock: (offsetMs) => writeFile(clock, String(offsetMs)) };
}

/**
 * Waits until each has been ready once, not all at one moment: the next fault may take another away meanwhile.
 * @returns those that were not ready in time, each with its condition.
 */
export async function untilEachReady(nodes: readonly Node[], timeoutMs: number): Promise<readonly string[]> {
  const deadline = Date.now() + timeoutMs;
  const conditions = await Promise.all(
    nodes.map(async ({ service }) => {
      while (!(await service.isReady())) {
        if (Date.now() > deadline) return [`${service.name}: ${await service.condition()}`];
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return [];
    }),
  );
  return conditions.flat();
}

/** Stands for both apis: the providers know where these are. */
const PUBLIC_BASE_URL = 'http://despatch.invalid';

const WORKER_SETTINGS = {
  PROVIDER_DEADLINE_MS: String(DEADLINE_MS),
  LEASE_MS: String(LEASE_MS),
  WEBHOOK_DEADLINE_MS: String(DEADLINE_MS),
  SWEEP_INTERVAL_MS: '500',
  SHUTDOWN_GRACE_MS: '10000',
};

/** `publish.before` with an api's wake-up. */
function natsMoments(direction: 'up' | 'down', bytes: Buffer): string[] {
  if (direction === 'down') return [];
  return bytes.includes('PUB despatch.wake.') ? ['publish.before'] : [];
}
