import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { inject } from 'vitest';
import type { Channel } from '#core/domain/channel.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import { startSmtpStandIn, type SmtpStandIn } from '#providers/smtp/stand-in.ts';
import type { StandIn } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { accountsOf } from '../../deploy/quickstart/accounts.ts';
import { createApiClient } from '../../deploy/quickstart/api-client.ts';
import {
  apiEnvironment,
  workerEnvironment,
  type EnvironmentInput,
} from '../../deploy/quickstart/environments.ts';
import { AUDIENCE, PEOPLE } from '../../deploy/quickstart/people.ts';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { readTwilio, type Arrival } from '../../deploy/quickstart/received.ts';
import { newState } from '../../deploy/quickstart/state.ts';
import { ensureTenant } from '../../deploy/quickstart/tenants.ts';
import { loginUrl } from '../../deploy/servers/login-url.ts';
import type { NatsServer } from '../../deploy/servers/nats.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { vaultVariables, type ServiceVariables } from '../../deploy/vault/service-variables.ts';
import { configureVault } from '../../deploy/vault/setup.ts';
import { migrate } from '../../services/migrate/migrate.ts';
import { startOidcIssuer } from './oidc-issuer.ts';
import { startProviderGate, type ProviderGate } from './provider-gate.ts';
import { testDatabase, testVault } from './servers.ts';
import { startServiceProcess, type Environment, type ServiceProcess } from './service-process.ts';
import { startAdministeredNats } from './stack-parts.ts';

export type StackTenant = {
  readonly id: string;
  readonly slug: string;
  readonly serviceKey: string;
  /** Of its owner. */
  readonly token: string;
};

/** The whole service as it is deployed: two processes of each kind and real servers, with provider stand-ins. */
export type ServiceStack = AsyncDisposable & {
  readonly apis: readonly [ServiceProcess, ServiceProcess];
  readonly workers: readonly [ServiceProcess, ServiceProcess];
  /** The superuser's connection. */
  readonly admin: Sql;
  readonly nats: NatsServer;
  /** A user of the services' account that may do everything. */
  readonly natsAdmin: { readonly user: string; readonly password: string };
  /** Credentials of the services' own, which no output may hold. */
  readonly secrets: readonly string[];
  readonly platformToken: string;
  /** A sign-in token of this subject with the verified address `<subject>@example.org`. */
  readonly mint: (subject: string) => Promise<string>;
  /** Variables of a controller on the same servers; where its cluster is is to be added. */
  readonly controllerEnvironment: Environment;
  readonly twilio: StandIn;
  readonly fcm: StandIn;
  readonly whatsapp: StandIn;
  readonly smtp: SmtpStandIn;
  /** Between the workers and the Twilio stand-in. */
  readonly gate: ProviderGate;
  /** What arrived at the Twilio stand-in. */
  readonly texts: () => Arrival[];
  /** Made through the public api, with one provider account for each of the channels. */
  readonly tenant: (channels?: readonly Channel[]) => Promise<StackTenant>;
  /** How many messages of a tenant are in each state. */
  readonly states: (tenantId: string) => Promise<Record<string, number>>;
};

export type OutageStack = ServiceStack & { readonly postgres: PostgresServer; readonly vault: VaultServer };

export type StackOptions = { readonly api?: Environment; readonly worker?: Environment };

type Backends = {
  readonly databaseUrl: string;
  readonly passwords: EnvironmentInput['state']['databasePasswords'];
  readonly keyring: ServiceVariables;
};

/** On the run's shared Postgres and Vault, with parts of its own of each. */
export async function startServiceStack(options: StackOptions = {}): Promise<ServiceStack> {
  await using stack = new AsyncDisposableStack();
  const [database, vault] = await Promise.all([testDatabase(), testVault()]);
  stack.use(database);
  stack.use(vault);
  const roles = await configureVault({
    address: vault.address,
    rootToken: vault.rootToken,
    transitMount: vault.mount,
    namePrefix: `${vault.mount}-`,
  });
  const backends: Backends = {
    databaseUrl: database.superuserUrl,
    passwords: inject('postgres').passwords,
    keyring: vaultVariables(vault, roles),
  };
  return await assemble(backends, options, stack);
}

/** With a Postgres and a Vault of its own, which a test may stop. */
export async function startOutageStack(options: StackOptions = {}): Promise<OutageStack> {
  await using stack = new AsyncDisposableStack();
  const passwords = { api: randomText(), worker: randomText(), controller: randomText() };
  const [database, vault] = await Promise.all([startPostgres({ durable: false }), startVault()]);
  stack.use(database);
  stack.use(vault);
  const [roles] = await Promise.all([
    configureVault(vault),
    migrate({ databaseUrl: database.superuserUrl(), passwords }),
  ]);
  const backends: Backends = {
    databaseUrl: database.superuserUrl(),
    passwords,
    keyring: vaultVariables(vault, roles),
  };
  return { ...(await assemble(backends, options, stack)), postgres: database, vault };
}

async function assemble(
  { databaseUrl, passwords, keyring }: Backends,
  options: StackOptions,
  resources: AsyncDisposableStack,
): Promise<ServiceStack> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-stack-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const admin = postgres(databaseUrl, {
    max: 2,
    onnotice: () => {},
    connection: { search_path: 'despatch' },
  });
  stack.defer(() => admin.end({ timeout: 1 }));
  const oidc = stack.use(await startOidcIssuer());
  const state = { ...newState({}, oidc.issuer), databasePasswords: passwords };
  const natsAdmin = { user: 'test_admin', password: randomText() };
  const nats = stack.use(await startAdministeredNats(folder, state.natsPasswords, natsAdmin));
  const twilio = stack.use(await startTwilioStandIn({ keep: 50_000 }));
  const fcm = stack.use(await startFcmStandIn());
  const whatsapp = stack.use(await startWhatsappCloudStandIn());
  const smtp = stack.use(await startSmtpStandIn());
  const gate = stack.use(await startProviderGate(twilio.origin));
  const mailCertificateFile = join(folder, 'mail.pem');
  await writeFile(mailCertificateFile, STAND_IN_CERTIFICATE);

  const start = async (kind: 'api' | 'worker', number: number): Promise<ServiceProcess> => {
    const ports = await choosePorts(true);
    const input: EnvironmentInput = {
      ports,
      state,
      databaseUrl,
      natsUrl: nats.url,
      jwksUrl: oidc.jwksUrl,
      keyring,
      providerUrls: { twilio: gate.origin, fcm: fcm.origin, 'whatsapp-cloud': whatsapp.origin },
      mailCertificateFile,
    };
    const environment = kind === 'api' ? apiEnvironment(input) : workerEnvironment(input);
    const name = `${kind}-${number}`;
    const metricsOrigin = `http://127.0.0.1:${kind === 'api' ? ports.apiMetrics : ports.workerMetrics}`;
    return startServiceProcess({
      kind,
      name,
      folder,
      metricsOrigin,
      origin: kind === 'api' ? `http://127.0.0.1:${ports.api}` : metricsOrigin,
      environment: { ...environment, WORKER_NAME: name, ...options[kind] },
    });
  };
  const pair = async (kind: 'api' | 'worker'): Promise<readonly [ServiceProcess, ServiceProcess]> => {
    const [first, second] = await Promise.all([start(kind, 1), start(kind, 2)]);
    return [stack.use(first), stack.use(second)];
  };
  const [apis, workers] = await Promise.all([pair('api'), pair('worker')]);

  const client = createApiClient(apis[0].origin, () => {});
  const mint = (sub: string): Promise<string> =>
    oidc.mint({ sub, audience: AUDIENCE, email: `${sub}@example.org`, emailVerified: true });
  const platformToken = await mint(PEOPLE.platform.sub);
  resources.use(stack.move());
  const owned = resources.move();
  return {
    apis,
    workers,
    admin,
    nats,
    natsAdmin,
    secrets: [
      state.pepper,
      ...Object.values(passwords),
      ...Object.values(state.natsPasswords),
      ...Object.values(keyring).map((variables) => variables['VAULT_SECRET_ID'] ?? ''),
    ],
    platformToken,
    mint,
    controllerEnvironment: {
      DESPATCH_ENV: 'development',
      DATABASE_URL: loginUrl(databaseUrl, 'despatch_controller', passwords.controller),
      NATS_URL: nats.url,
      NATS_USER: 'despatch_controller',
      NATS_PASSWORD: state.natsPasswords.controller,
      METRICS_HOST: '127.0.0.1',
      OIDC_ISSUER: state.issuer,
      ...keyring.controller,
    },
    twilio,
    fcm,
    whatsapp,
    smtp,
    gate,
    texts: () => twilio.received.map(readTwilio).filter((arrival) => arrival !== undefined),
    async tenant(channels = ['sms']) {
      const slug = `t-${randomUUID().slice(0, 8)}`;
      const token = await mint(`owner-of-${slug}`);
      const accounts = accountsOf(slug, smtp.port).filter(({ channel }) => channels.includes(channel));
      const wanted = { slug, name: slug, ownerToken: token, accounts };
      return { ...(await ensureTenant(client, wanted, undefined, platformToken)), token };
    },
    async states(tenantId) {
      const rows = await admin<{ status: string; n: number }[]>`
        select status, count(*)::int as n from message_states where tenant_id = ${tenantId} group by status`;
      return Object.fromEntries(rows.map(({ status, n }) => [status, n]));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function randomText(): string {
  return randomBytes(18).toString('hex');
}
