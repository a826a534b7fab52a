import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import type { EnvironmentInput } from '../../deploy/quickstart/environments.ts';
import { newState } from '../../deploy/quickstart/state.ts';
import type { NatsServer } from '../../deploy/servers/nats.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { vaultVariables } from '../../deploy/vault/service-variables.ts';
import { configureVault } from '../../deploy/vault/setup.ts';
import { migrate } from '../../services/migrate/migrate.ts';
import { startOidcIssuer, type OidcIssuer } from '../support/oidc-issuer.ts';
import { startAdministeredNats } from '../support/stack-parts.ts';
import { startTraceCollector, type TraceCollector } from '../support/trace-collector.ts';
import { startHelper, type HelperProcess } from './helper-process.ts';
import type { ProviderCommand, ProviderReport } from './provider-process.ts';
import { openWalDisk, type WalDisk } from './wal-disk.ts';

/** Everything that the service stands on, all of it real but for the providers. */
export type Servers = {
  readonly postgres: PostgresServer;
  /** Null where this machine does not let us make a disk of our own. */
  readonly walDisk: WalDisk | null;
  readonly nats: NatsServer;
  readonly natsAdmin: { readonly user: string; readonly password: string };
  readonly vault: VaultServer;
  readonly traces: TraceCollector;
  readonly oidc: OidcIssuer;
  readonly providers: HelperProcess<ProviderCommand, ProviderReport>;
  readonly providerLedger: string;
  /** The stand-ins of each worker. */
  readonly providerUrls: Readonly<Record<string, EnvironmentInput['providerUrls']>>;
  readonly mailCertificateFile: string;
  readonly keyring: EnvironmentInput['keyring'];
  readonly state: EnvironmentInput['state'];
  /** Asks the database as its superuser, over a connection that no earlier fault has touched. */
  readonly ask: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
  /** Credentials of the services' own. */
  readonly secrets: readonly string[];
};

export const WORKERS = ['worker-1', 'worker-2'] as const;

const POSTGRES_SETTINGS = { max_wal_size: '256MB', min_wal_size: '32MB', shared_buffers: '256MB' };
const ADMIN_OPTIONS = {
  max: 1,
  onnotice: () => {},
  connection: { search_path: 'despatch' },
  types: { bigint: { to: 20, from: [20], serialize: String, parse: Number } },
};

/** @param stack owns what is started. */
export async function openServers(
  folder: string,
  stack: AsyncDisposableStack,
  log: (line: string) => void,
): Promise<Servers> {
  const oidc = stack.use(await startOidcIssuer());
  const state = newState({}, oidc.issuer);
  const natsAdmin = { user: 'test_admin', password: randomBytes(18).toString('hex') };
  const [database, vault, nats, traces] = await Promise.all([
    startPostgres({ settings: POSTGRES_SETTINGS, log }).then((server) => stack.use(server)),
    startVault({ log }).then((server) => stack.use(server)),
    startAdministeredNats(folder, state.natsPasswords, natsAdmin).then((server) => stack.use(server)),
    startTraceCollector().then((collector) => stack.use(collector)),
  ]);
  const walDisk = await openWalDisk(database);
  if (walDisk !== null) stack.use(walDisk);
  const [roles] = await Promise.all([
    configureVault(vault),
    migrate({ databaseUrl: database.superuserUrl(), passwords: state.databasePasswords }),
  ]);
  const keyring = vaultVariables(vault, roles);
  const mailCertificateFile = join(folder, 'mail.pem');
  await writeFile(mailCertificateFile, STAND_IN_CERTIFICATE);
  return {
    postgres: database,
    walDisk,
    nats,
    natsAdmin,
    vault,
    traces,
    oidc,
    ...(await startProviders(folder, stack)),
    mailCertificateFile,
    keyring,
    state,
    async ask(work) {
      const sql = postgres(database.superuserUrl(), ADMIN_OPTIONS);
      try {
        return await work(sql);
      } finally {
        await sql.end({ timeout: 1 });
      }
    },
    secrets: [
      state.pepper,
      ...Object.values(state.databasePasswords),
      ...Object.values(state.natsPasswords),
      ...Object.values(keyring).map((variables) => variables['VAULT_SECRET_ID'] ?? ''),
    ],
  };
}

async function startProviders(
  folder: string,
  stack: AsyncDisposableStack,
): Promise<Pick<Servers, 'providers' | 'providerLedger' | 'providerUrls'>> {
  const providerLedger = join(folder, 'provider-calls.ndjson');
  const providers = stack.use(
    startHelper<ProviderCommand, ProviderReport>('provider-process.ts', [
      providerLedger,
      '127.0.0.1',
      ...WORKERS,
    ]),
  );
  const { origins } = await providers.next('listening');
  return { providers, providerLedger, providerUrls: origins };
}
