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

/** A migrated database, and a Vault with logins for the services. */
export type Backends = {
  /** URL of the superuser. */
  readonly databaseUrl: string;
  readonly passwords: ServicePasswords;
  readonly keyring: ServiceVariables;
};

/** The servers of a stack, all of them real. */
export type StackServers = Backends & {
  readonly nats: NatsServer;
  /** A user in the services' NATS account with all rights. */
  readonly natsAdmin: { readonly user: string; readonly password: string };
  readonly oidc: OidcIssuer;
  /** Returns a sign-in token of this subject with the verified address `<subject>@example.org`. */
  readonly mint: (subject: string) => Promise<string>;
  readonly state: State;
  /** Certificate of the mail stand-in. */
  readonly mailCertificateFile: string;
  /** The services' own credentials, which no output may contain. */
  readonly secrets: readonly string[];
};

/** Prepares new servers for the services. */
export async function prepareBackends(
  postgres: Pick<PostgresServer, 'superuserUrl'>,
  vault: Pick<VaultServer, 'address' | 'rootToken'>,
): Promise<Backends> {
  const databaseUrl = postgres.superuserUrl();
  const passwords = newPasswords();
  const [logins] = await settleAll([configureVault(vault), migrate({ databaseUrl, passwords })]);
  return { databaseUrl, passwords, keyring: vaultVariables(vault, logins) };
}

/** Starts the servers of a stack. @param stack owns what is started. */
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
  /** Address of Postgres for this process, if it does not connect directly. */
  readonly databaseUrl?: string;
  /** Address of NATS for this process, if it does not connect directly. */
  readonly natsUrl?: string;
  /** Further variables, which override the usual ones. */
  readonly environment?: Environment | undefined;
};

/** Returns the options with which a process of a stack is started. */
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

/** Returns the variables of a controller, without the address of its cluster. */
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
