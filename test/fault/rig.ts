import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import postgres from 'postgres';
import type { Sql } from '#core/platform/postgres.ts';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import { createApiClient, type ApiClient } from '../../deploy/quickstart/api-client.ts';
import { apiEnvironment, workerEnvironment } from '../../deploy/quickstart/environments.ts';
import { AUDIENCE, PEOPLE } from '../../deploy/quickstart/people.ts';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { newState } from '../../deploy/quickstart/state.ts';
import type { NatsServer } from '../../deploy/servers/nats.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { configureVault } from '../../deploy/vault/setup.ts';
import { migrate } from '../../services/migrate/migrate.ts';
import { startOidcIssuer } from '../support/oidc-issuer.ts';
import { postgresMoments } from '../support/postgres-moments.ts';
import { startAdministeredNats, vaultEnvironments } from '../support/stack-parts.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.ts';
import { startHelper, type HelperProcess } from './helper-process.ts';
import type { ProviderCommand, ProviderReport } from './provider-process.ts';
import { superviseService, type SupervisedService } from './supervised-service.ts';
import { makeTenants, type TenantSet } from './tenants.ts';
import { openWalDisk, type WalDisk } from './wal-disk.ts';

/** One service process and the proxies that it reaches its servers through. */
export type Node = {
  readonly service: SupervisedService;
  readonly database: TcpProxy;
  readonly broker: TcpProxy;
  /** Moves its wall clock. */
  readonly setClock: (offsetMs: number) => Promise<void>;
};

/** The whole service as it is deployed, with a hand on everything that can break. */
export type Rig = AsyncDisposable & {
  /** Holds logs and ledgers. */
  readonly folder: string;
  readonly apis: readonly Node[];
  readonly workers: readonly Node[];
  readonly postgres: PostgresServer;
  readonly nats: NatsServer;
  readonly natsAdmin: { readonly user: string; readonly password: string };
  readonly vault: VaultServer;
  /** Null where this machine does not let us make a disk of our own. */
  readonly walDisk: WalDisk | null;
  readonly providers: HelperProcess<ProviderCommand, ProviderReport>;
  readonly providerLedger: string;
  readonly traces: TraceCollector;
  /** Asks the database as its superuser, over a connection that no earlier fault has touched. */
  readonly ask: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
  /** Calls the public api through whichever process answers, for as long as it takes. */
  readonly insist: <T>(work: (client: ApiClient) => Promise<T>) => Promise<T>;
  readonly platformToken: string;
  readonly tenants: TenantSet;
  /** Credentials of the services' own. */
  readonly secrets: readonly string[];
};

export const LEASE_MS = 3_000;
const DEADLINE_MS = 1_500;
const STATEMENT_MS = 3_000;
const ADMIN_OPTIONS = {
  max: 1,
  onnotice: () => {},
  connection: { search_path: 'despatch' },
  types: { bigint: { to: 20, from: [20], serialize: String, parse: Number } },
};
const CLOCK = fileURLToPath(new URL('shifted-clock.ts', import.meta.url));
const TRACED = 0.02;
const START_MS_MAX = 90_000;
const INSIST_TURNS_MAX = 80;
const WATCHED = ['accept', 'claim', 'claim_due', 'complete'];

export async function openRig(tenantCount: number, log: (line: string) => void): Promise<Rig> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-fault-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const passwords = { api: randomText(), worker: randomText(), controller: randomText() };
  const natsAdmin = { user: 'test_admin', password: randomText() };
  const oidc = stack.use(await startOidcIssuer());
  const state = { ...newState({}, oidc.issuer), databasePasswords: passwords };
  const settings = { max_wal_size: '256MB', min_wal_size: '32MB', shared_buffers: '256MB' };
  const [database, vault, nats, traces] = await Promise.all([
    startPostgres({ durable: false, settings, log }).then((server) => stack.use(server)),
    startVault({ log }).then((server) => stack.use(server)),
    startAdministeredNats(folder, state.natsPasswords, natsAdmin).then((server) => stack.use(server)),
    startTraceCollector().then((collector) => stack.use(collector)),
  ]);
  const walDisk = await openWalDisk(database);
  if (walDisk !== null) stack.use(walDisk);
  const [roles] = await Promise.all([
    configureVault(vault),
    migrate({ databaseUrl: database.superuserUrl(), passwords }),
  ]);
  const ask: Rig['ask'] = async (work) => {
    const sql = postgres(database.superuserUrl(), ADMIN_OPTIONS);
    try {
      return await work(sql);
    } finally {
      await sql.end({ timeout: 1 });
    }
  };
  const providerLedger = join(folder, 'provider-calls.ndjson');
  const workerNames = ['worker-1', 'worker-2'];
  const providers = stack.use(
    startHelper<ProviderCommand, ProviderReport>('provider-process.ts', [providerLedger, ...workerNames]),
  );
  const { origins } = await providers.next('listening');
  const mailCertificateFile = join(folder, 'mail.pem');
  await writeFile(mailCertificateFile, STAND_IN_CERTIFICATE);
  const keyring = vaultEnvironments(vault.address, 'transit', roles);
  await mkdir(join(folder, 'clocks'));

  async function openNode(kind: 'api' | 'worker', number: number): Promise<Node> {
    const name = `${kind}-${number}`;
    const [toDatabase, toBroker, ports] = await Promise.all([
      startTcpProxy(database.port, () => postgresMoments(WATCHED)),
      startTcpProxy(nats.port, () => natsMoments),
      choosePorts(true),
    ]);
    stack.use(toDatabase);
    stack.use(toBroker);
    const url = new URL(database.superuserUrl());
    url.port = String(toDatabase.port);
    const clock = join(folder, 'clocks', name);
    const input = {
      ports,
      state,
      databaseUrl: url.href,
      natsUrl: `nats://127.0.0.1:${toBroker.port}`,
      jwksUrl: oidc.jwksUrl,
      keyring,
      providerUrls: origins[name] as never,
      mailCertificateFile,
    };
    const metricsOrigin = `http://127.0.0.1:${kind === 'api' ? ports.apiMetrics : ports.workerMetrics}`;
    const own: Record<string, string> =
      kind === 'api'
        ? {}
        : {
            WORKER_NAME: name,
            PROVIDER_DEADLINE_MS: String(DEADLINE_MS),
            LEASE_MS: String(LEASE_MS),
            SWEEP_INTERVAL_MS: '500',
            SHUTDOWN_GRACE_MS: '10000',
          };
    const service = await superviseService({
      kind,
      name,
      folder,
      metricsOrigin,
      origin: kind === 'api' ? `http://127.0.0.1:${ports.api}` : metricsOrigin,
      environment: {
        ...(kind === 'api' ? apiEnvironment(input) : workerEnvironment(input)),
        ...own,
        LOG_LEVEL: 'debug',
        DATABASE_STATEMENT_TIMEOUT_MS: String(STATEMENT_MS),
        OTEL_EXPORTER_OTLP_ENDPOINT: traces.origin,
        OTEL_TRACES_SAMPLE_RATIO: String(TRACED),
        // Processes that start every few seconds need not compile the same code each time.
        NODE_COMPILE_CACHE: join(folder, 'compiled'),
        NODE_OPTIONS: `--import=${CLOCK}`,
        CLOCK_FILE: clock,
      },
    });
    stack.use(service);
    return {
      service,
      database: toDatabase,
      broker: toBroker,
      setClock: (offsetMs) => writeFile(clock, String(offsetMs)),
    };
  }

  const [apis, workers] = await Promise.all([
    Promise.all([openNode('api', 1), openNode('api', 2)]),
    Promise.all([openNode('worker', 1), openNode('worker', 2)]),
  ]);
  if (!(await untilAllReady([...apis, ...workers], START_MS_MAX)))
    throw new Error('not all processes started');
  const clients = apis.map(({ service }) => createApiClient(service.origin, () => {}));
  const insist: Rig['insist'] = async (work) => {
    for (let turn = 0; ; turn++) {
      try {
        return await work(clients[turn % clients.length] as ApiClient);
      } catch (error) {
        if (turn === INSIST_TURNS_MAX) throw error;
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }
  };
  const mint = (sub: string): Promise<string> =>
    oidc.mint({
      sub,
      audience: AUDIENCE,
      email: `${sub}@example.org`,
      emailVerified: true,
      expiresInSeconds: 86_400,
    });
  const platformToken = await mint(PEOPLE.platform.sub);
  const tenants = await makeTenants({
    origin: apis[0]?.service.origin ?? '',
    ask,
    platformToken,
    mint,
    count: tenantCount,
  });
  const owned = stack.move();
  return {
    folder,
    apis,
    workers,
    postgres: database,
    nats,
    natsAdmin,
    vault,
    walDisk,
    providers,
    providerLedger,
    traces,
    ask,
    insist,
    platformToken,
    tenants,
    secrets: [
      state.pepper,
      ...Object.values(passwords),
      ...Object.values(state.natsPasswords),
      ...Object.values(keyring).map((variables) => variables['VAULT_SECRET_ID'] ?? ''),
    ],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** @returns whether all were ready in time. */
export async function untilAllReady(nodes: readonly Node[], timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const ready = await Promise.all(nodes.map(({ service }) => service.isReady()));
    if (ready.every(Boolean)) return true;
    if (Date.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** `ack.before` with a worker's acknowledgement of a wake-up, `publish.before` with an api's wake-up. */
function natsMoments(direction: 'up' | 'down', bytes: Buffer): string[] {
  if (direction === 'down') return [];
  return [
    ...(bytes.includes('$JS.ACK.') ? ['ack.before'] : []),
    ...(bytes.includes('PUB despatch.wake.') ? ['publish.before'] : []),
  ];
}

function randomText(): string {
  return randomBytes(18).toString('hex');
}
