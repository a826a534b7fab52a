import { randomBytes } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { newPasswords, type ServicePasswords } from '../../deploy/quickstart/state.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import type { NatsServer } from '../../deploy/servers/nats.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { startHelper, type HelperProcess } from '../fault/helper-process.ts';
import type { ProviderCommand, ProviderReport } from '../fault/provider-process.ts';
import { makeCertificates } from '../support/certificates.ts';
import { startOidcIssuer, type OidcIssuer } from '../support/oidc-issuer.ts';
import { startAdministeredNats } from '../support/administered-nats.ts';
import type { ClusterEnvironment } from './environment.ts';

/** Servers outside the cluster that all releases use, all real except the providers and the issuer. */
export type Backends = AsyncDisposable & {
  /** Address of this machine for pods. */
  readonly host: string;
  /** PEM of the authority that signed the certificates of all servers. */
  readonly ca: string;
  readonly postgres: PostgresServer;
  readonly vault: VaultServer;
  readonly oidc: OidcIssuer;
  /** Ledger of the calls that any worker made to the providers. */
  readonly providerLedger: string;
  /** Origins of the stand-ins, by catalog id. */
  readonly providerUrls: Readonly<Record<string, string>>;
  readonly passwords: ServicePasswords;
  readonly forRelease: (name: string) => Promise<ReleaseBackends>;
};

/** The parts of the servers that one release has for itself. */
export type ReleaseBackends = {
  readonly database: string;
  /** URL for migrations: the role owns the database and is not a superuser. */
  readonly ownerUrl: string;
  readonly urlOf: (service: keyof ServicePasswords) => string;
  readonly nats: NatsServer;
  readonly natsUrl: string;
  readonly natsPasswords: ServicePasswords;
  /** Queries the database as its superuser. */
  readonly ask: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;
};

const OWNER = 'despatch_owner';
const POSTGRES_SETTINGS = { max_wal_size: '256MB', min_wal_size: '32MB' };

export async function openBackends(
  { hostAddress: host, vault: program }: ClusterEnvironment,
  folder: string,
  log: (line: string) => void,
): Promise<Backends> {
  await using stack = new AsyncDisposableStack();
  const certificates = join(folder, 'certificates');
  await mkdir(certificates, { recursive: true });
  makeCertificates(certificates, 'openssl', host);
  const file = (name: string): string => join(certificates, name);
  const tls = { host, certFile: file('server.pem'), keyFile: file('server.key') };

  const providerLedger = join(folder, 'provider-calls.ndjson');
  const providers: HelperProcess<ProviderCommand, ProviderReport> = stack.use(
    startHelper('provider-process.ts', [providerLedger, join(folder, 'receipts.ndjson'), host, 'workers']),
  );
  const [server, vault, oidc, { origins }] = await Promise.all([
    startPostgres({ durable: false, tls, settings: POSTGRES_SETTINGS, log }).then((one) => stack.use(one)),
    startVault({ tls, program, log }).then((one) => stack.use(one)),
    startOidcIssuer({ host }).then((one) => stack.use(one)),
    providers.next('listening'),
  ]);
  const ownerPassword = newPassword();
  await query(server.superuserUrl(), async (sql) => {
    await sql.unsafe(`create role ${OWNER} login createrole password '${ownerPassword}'`);
  });
  // Roles belong to the whole Postgres server, so all releases share their passwords.
  const passwords = newPasswords();

  const natsTls = `tls { cert_file: ${JSON.stringify(file('server.pem'))}, key_file: ${JSON.stringify(file('server.key'))} }`;
  const forRelease: Backends['forRelease'] = async (name) => {
    const database = name.replaceAll('-', '_');
    await query(server.superuserUrl(), (sql) => sql.unsafe(`create database ${database} owner ${OWNER}`));
    const natsFolder = join(folder, `nats-${name}`);
    await mkdir(natsFolder, { recursive: true });
    const natsPasswords = newPasswords();
    const admin = { user: 'test_admin', password: newPassword() };
    const nats = owned.use(
      await startAdministeredNats(natsFolder, natsPasswords, admin, { host, config: natsTls }),
    );
    const urlAs = (user: string, password: string): string =>
      `postgres://${user}:${password}@${host}:${server.port}/${database}`;
    return {
      database,
      ownerUrl: urlAs(OWNER, ownerPassword),
      urlOf: (service) => urlAs(`despatch_${service}`, passwords[service]),
      nats,
      natsUrl: `tls://${host}:${nats.port}`,
      natsPasswords,
      ask: (work) => query(server.superuserUrl(database), work),
    };
  };
  const ca = await readFile(file('ca.pem'), 'utf8');
  const owned = stack.move();
  return {
    host,
    ca,
    postgres: server,
    vault,
    oidc,
    providerLedger,
    providerUrls: origins['workers'] ?? {},
    passwords,
    forRelease,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function query<T>(url: string, work: (sql: Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, {
    max: 1,
    onnotice: () => {},
    connection: { search_path: 'despatch, public' },
    types: { bigint: { to: 20, from: [20], serialize: String, parse: Number } },
  });
  try {
    return await work(sql);
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function newPassword(): string {
  return randomBytes(18).toString('hex');
}
