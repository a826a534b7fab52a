import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { postgresMoments } from '../support/postgres-moments.ts';
import { stackProcess } from '../support/stack-servers.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import type { Servers } from './servers.ts';
import { superviseService, type SupervisedService } from './supervised-service.ts';

/** One service process and the proxies between it and its servers. */
export type Node = {
  readonly service: SupervisedService;
  readonly database: TcpProxy;
  readonly broker: TcpProxy;
  /** Sets the offset of its wall clock. */
  readonly setClock: (offsetMs: number) => Promise<void>;
};

/** A call's deadline, and the time that a slow machine needs to find what another worker has claimed. */
export const LEASE_MS = 5_000;
const DEADLINE_MS = 1_500;
/** Lease of deliveries: four deadlines, and what a worker adds to record them. */
export const DELIVERY_LEASE_MS = 4 * DEADLINE_MS + 5_000;

const STATEMENT_MS = 3_000;
const TRACED = 0.02;
const CLOCK = fileURLToPath(new URL('shifted-clock.ts', import.meta.url));
/** Schema functions whose calls the proxy reports as moments. */
const WATCHED = [
  'accept',
  'claim',
  'claim_due',
  'complete',
  'store_receipt_calls',
  'settle_receipt_calls',
  'record_receipts',
  'fail_over_silent',
  'append_matches',
  'claim_deliveries',
  'complete_deliveries',
];

/** Starts a service process behind its proxies. @param stack owns what is started. */
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
        // All workers share this name, as the processes that follow each other in one pod do.
        WORKER_NAME: 'worker',
        LOG_LEVEL: 'debug',
        DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_MS),
        OTEL_EXPORTER_OTLP_ENDPOINT: servers.traces.origin,
        OTEL_TRACES_SAMPLE_RATIO: String(TRACED),
        // Spares processes that start every few seconds the compilation of the same code.
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
 * Waits until each process has been ready once, not all at the same time, because the next fault may already affect another.
 * @returns the condition of each process that was not ready in time.
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

/** Address of both apis in receipt URLs; the stand-ins replace it by the address of an api. */
const PUBLIC_BASE_URL = 'http://despatch.invalid';

const WORKER_SETTINGS = {
  PROVIDER_DEADLINE_MS: String(DEADLINE_MS),
  LEASE_MS: String(LEASE_MS),
  WEBHOOK_DEADLINE_MS: String(DEADLINE_MS),
  SWEEP_INTERVAL_MS: '500',
  SHUTDOWN_GRACE_MS: '10000',
};

/** Returns `publish.before` for bytes that contain an api's wake-up. */
function natsMoments(direction: 'up' | 'down', bytes: Buffer): string[] {
  if (direction === 'down') return [];
  return bytes.includes('PUB despatch.wake.') ? ['publish.before'] : [];
}
