import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import {
  apiEnvironment,
  workerEnvironment,
  type Environment,
  type EnvironmentInput,
} from '../../deploy/quickstart/environments.ts';
import { AUDIENCE } from '../../deploy/quickstart/people.ts';
import type { Ports } from '../../deploy/quickstart/ports.ts';
import { settleAll } from '../../deploy/quickstart/settle-all.ts';
import { newPasswords, newState, type ServicePasswords, type State } from '../../deploy/quickstart/state.ts';
import { loginUrl } from '../../deploy/servers/login-url.ts';
import type { NatsServer } from '../../deploy/servers/nats.ts';
import type { PostgresServer } from '../../deploy/servers/postgres.ts';
import type { VaultServer } from '../../deploy/servers/vault.ts';
import { vaultVariables, type ServiceVariables } from '../../deploy/vault/service-variables.ts';
import { configureVault } from '../../deploy/vault/setup.ts';
import { migrate } from '../../services/migrate/migrate.ts';
import { startAdministeredNats } from './administered-nats.ts';
import { startOidcIssuer, type OidcIssuer } from './oidc-issuer.ts';
import type { ServiceOptions } from './service-process.ts';

/** A migrated database, and a Vault that lets the services in. */
export type Backends = {
  /** The superuser's. */
  readonly databaseUrl: string;
  readonly passwords: ServicePasswords;
  readonly keyring: ServiceVariables;
};

/** What the services of a stack stand on, all of it real. */
export type StackServers = Backends & {
  readonly nats: NatsServer;
  /** A user of the services' account that may do everything. */
  readonly natsAdmin: { readonly user: string; readonly password: string };
  readonly oidc: OidcIssuer;
  /** A sign-in token of this subject with the verified address `<subject>@example.org`. */
  readonly mint: (subject: string) => Promise<string>;
  readonly state: State;
  /** Of the stand-in for mail. */
  readonly mailCertificateFile: string;
  /** Credentials of the services' own, which no output may hold. */
  readonly secrets: readonly string[];
};

/** Servers that nobody has used yet. */
export async function prepareBackends(
  postgres: Pick<PostgresServer, 'superuserUrl'>,
  vault: Pick<VaultServer, 'address' | 'rootToken'>,
): Promise<Backends> {
  const databaseUrl = postgres.superuserUrl();
  const passwords = newPasswords();
  const [logins] = await settleAll([configureVault(vault), migrate({ databaseUrl, passwords })]);
  return { databaseUrl, passwords, keyring: vaultVariables(vault, logins) };
}

/** @param stack owns what is started. */
export async function openStackServers(
  openBackends: () => Promise<Backends>,
  folder: string,
  stack: AsyncDisposableStack,
): Promise<StackServers> {
  const oidc = stack.use(await startOidcIssuer());
  const fresh = newState({}, oidc.issuer);
  const natsAdmin = { user: 'test_admin', password: randomBytes(18).toString('hex') };
  const [backends, nats] = await settleAll([
    openBackends(),
    startAdministeredNats(folder, fresh.natsPasswords, natsAdmin).then((server) => stack.use(server)),
  ]);
  const state = { ...fresh, databasePasswords: backends.passwords };
  const mailCertificateFile = join(folder, 'mail.pem');
  await writeFile(mailCertificateFile, STAND_IN_CERTIFICATE);
  return {
    ...backends,
    nats,
    natsAdmin,
    oidc,
    mint: (sub) =>
      oidc.mint({
        sub,
        audience: AUDIENCE,
        email: `${sub}@example.org`,
        emailVerified: true,
        expiresInSeconds: 86_400,
      }),
    state,
    mailCertificateFile,
    secrets: [
      state.pepper,
      state.receiptPepper,
      ...Object.values(state.databasePasswords),
      ...Object.values(state.natsPasswords),
      ...Object.values(backends.keyring).map((variables) => variables['VAULT_SECRET_ID'] ?? ''),
    ],
  };
}

export type StackProcess = {
  readonly kind: 'api' | 'worker';
  readonly name: string;
  readonly folder: string;
  readonly ports: Ports;
  readonly providerUrls: EnvironmentInput['providerUrls'];
  /** Where it reaches Postgres, if not at the server itself. */
  readonly databaseUrl?: string;
  /** The same of NATS. */
  readonly natsUrl?: string;
  /** Variables that it has beside the usual ones, or instead of them. */
  readonly environment?: Environment | undefined;
};

/** How a process of a stack is started. */
export function stackProcess(
  servers: StackServers,
  process: StackProcess,
): ServiceOptions & Pick<StackProcess, 'kind'> {
  const { kind, name, folder, ports, providerUrls, environment } = process;
  const { databaseUrl = servers.databaseUrl, natsUrl = servers.nats.url } = process;
  const { state, oidc, keyring, mailCertificateFile } = servers;
  const { jwksUrl } = oidc;
  const input = { ports, state, databaseUrl, natsUrl, jwksUrl, keyring, providerUrls, mailCertificateFile };
  const [own, port, metricsPort] =
    kind === 'api'
      ? [apiEnvironment(input), ports.api, ports.apiMetrics]
      : [{ ...workerEnvironment(input), WORKER_NAME: name }, ports.workerMetrics, ports.workerMetrics];
  return {
    kind,
    name,
    folder,
    origin: `http://127.0.0.1:${port}`,
    metricsOrigin: `http://127.0.0.1:${metricsPort}`,
    environment: { ...own, ...environment },
  };
}

/** Variables of a controller; where its cluster is is to be added. */
export function controllerEnvironment({ databaseUrl, nats, state, keyring }: StackServers): Environment {
  return {
    DESPATCH_ENV: 'development',
    DATABASE_URL: loginUrl(databaseUrl, 'despatch_controller', state.databasePasswords.controller),
    NATS_URL: nats.url,
    NATS_USER: 'despatch_controller',
    NATS_PASSWORD: state.natsPasswords.controller,
    METRICS_HOST: '127.0.0.1',
    OIDC_ISSUER: state.issuer,
    ...keyring.controller,
  };
}
