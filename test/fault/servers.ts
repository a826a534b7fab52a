import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { EnvironmentInput } from '../../deploy/quickstart/environments.ts';
import { settleAll } from '../../deploy/quickstart/settle-all.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { openStackServers, prepareBackends, type StackServers } from '../support/stack-servers.ts';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.ts';
import { startHelper, type HelperProcess } from './helper-process.ts';
import type { ProviderCommand, ProviderReport } from './provider-process.ts';
import type { ReceiverCommand, ReceiverReport } from './receiver-process.ts';
import { openWalDisk, type WalDisk } from './wal-disk.ts';

/** The servers that the service depends on, all real except the providers. */
export type Servers = StackServers & {
  readonly postgres: PostgresServer;
  /** Null where this machine does not allow mounting a disk. */
  readonly walDisk: WalDisk | null;
  readonly vault: VaultServer;
  readonly traces: TraceCollector;
  readonly providers: HelperProcess<ProviderCommand, ProviderReport>;
  readonly providerLedger: string;
  /** Ledger of the receipts that the api accepted. */
  readonly receiptLedger: string;
  readonly receiver: HelperProcess<ReceiverCommand, ReceiverReport>;
  readonly receiverOrigin: string;
  /** Ledger of the events that arrived at tenants' endpoints. */
  readonly eventLedger: string;
  /** URLs of the stand-ins, by worker. */
  readonly providerUrls: Readonly<Record<string, EnvironmentInput['providerUrls']>>;
  /** Queries the database as its superuser, over a new connection that no earlier fault has affected. */
  readonly ask: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
};

export const WORKERS = ['worker-1', 'worker-2'] as const;

const POSTGRES_SETTINGS = {
  max_wal_size: '256MB',
  min_wal_size: '32MB',
  shared_buffers: '256MB',
  // The WAL writer must not sync the log on its own: a commit that does not wait for its sync is then lost with the power, even a
  // rare one.
  wal_writer_delay: '10s',
  wal_writer_flush_after: '64MB',
};
const ADMIN_OPTIONS = {
  max: 1,
  onnotice: () => {},
  connection: { search_path: 'despatch' },
  types: { bigint: { to: 20, from: [20], serialize: String, parse: Number } },
};

/** Starts the servers. @param stack owns what is started. */
export async function openServers(
  folder: string,
  stack: AsyncDisposableStack,
  log: (line: string) => void,
): Promise<Servers> {
  const [database, vault, traces] = await settleAll([
    startPostgres({ settings: POSTGRES_SETTINGS, log }).then((server) => stack.use(server)),
    startVault({ log }).then((server) => stack.use(server)),
    startTraceCollector().then((collector) => stack.use(collector)),
  ]);
  const walDisk = await openWalDisk(database);
  if (walDisk !== null) stack.use(walDisk);
  return {
    ...(await openStackServers(() => prepareBackends(database, vault), folder, stack)),
    ...(await startProviders(folder, stack)),
    ...(await startReceiver(folder, stack)),
    postgres: database,
    walDisk,
    vault,
    traces,
    async ask(work) {
      const sql = postgres(database.superuserUrl(), ADMIN_OPTIONS);
      try {
        return await work(sql);
      } finally {
        await sql.end({ timeout: 1 });
      }
    },
  };
}

async function startProviders(
  folder: string,
  stack: AsyncDisposableStack,
): Promise<Pick<Servers, 'providers' | 'providerLedger' | 'receiptLedger' | 'providerUrls'>> {
  const providerLedger = join(folder, 'provider-calls.ndjson');
  const receiptLedger = join(folder, 'receipts.ndjson');
  const providers = stack.use(
    startHelper<ProviderCommand, ProviderReport>('provider-process.ts', [
      providerLedger,
      receiptLedger,
      '127.0.0.1',
      ...WORKERS,
    ]),
  );
  const { origins } = await providers.next('listening');
  return { providers, providerLedger, receiptLedger, providerUrls: origins };
}

async function startReceiver(
  folder: string,
  stack: AsyncDisposableStack,
): Promise<Pick<Servers, 'receiver' | 'receiverOrigin' | 'eventLedger'>> {
  const eventLedger = join(folder, 'events.ndjson');
  const receiver = stack.use(
    startHelper<ReceiverCommand, ReceiverReport>('receiver-process.ts', [eventLedger, '127.0.0.1']),
  );
  const { origin } = await receiver.next('listening');
  return { receiver, receiverOrigin: origin, eventLedger };
}
