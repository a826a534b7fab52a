import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import { inject } from 'vitest';
import type { Channel } from '#core/domain/message/channel.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import { startSmtpStandIn, type SmtpStandIn } from '#providers/smtp/stand-in.ts';
import type { StandIn } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { accountsOf } from '../../deploy/quickstart/accounts.ts';
import { createApiClient } from '../../deploy/quickstart/api-client.ts';
import { PEOPLE } from '../../deploy/quickstart/people.ts';
import { choosePorts } from '../../deploy/quickstart/ports.ts';
import { readTwilio, type Arrival } from '../../deploy/quickstart/received.ts';
import { settleAll } from '../../deploy/quickstart/settle-all.ts';
import { ensureTenant } from '../../deploy/quickstart/tenants.ts';
import { startPostgres, type PostgresServer } from '../../deploy/servers/postgres.ts';
import { startVault, type VaultServer } from '../../deploy/servers/vault.ts';
import { startProviderGate, type ProviderGate } from './provider-gate.ts';
import { testDatabase } from './servers.ts';
import { startServiceProcess, type Environment, type ServiceProcess } from './service-process.ts';
import { openVaultLogins } from './shared-vault.ts';
import {
  controllerEnvironment,
  openStackServers,
  prepareBackends,
  stackProcess,
  type Backends,
  type StackServers,
} from './stack-servers.ts';

export type StackTenant = {
  readonly id: string;
  readonly slug: string;
  readonly serviceKey: string;
  /** Sign-in token of the tenant's owner. */
  readonly token: string;
};

/** The complete service as it is deployed: two processes of each kind and real servers, with provider stand-ins. */
export type ServiceStack = AsyncDisposable &
  Pick<StackServers, 'nats' | 'natsAdmin' | 'secrets' | 'mint'> & {
    readonly apis: readonly [ServiceProcess, ServiceProcess];
    readonly workers: readonly [ServiceProcess, ServiceProcess];
    /** A connection of the superuser. */
    readonly admin: Sql;
    readonly platformToken: string;
    /** Variables of a controller on the same servers, without the address of its cluster. */
    readonly controllerEnvironment: Environment;
    readonly twilio: StandIn;
    readonly fcm: StandIn;
    readonly whatsapp: StandIn;
    readonly smtp: SmtpStandIn;
    /** The gate between the workers and the Twilio stand-in. */
    readonly gate: ProviderGate;
    /** Returns the messages that arrived at the Twilio stand-in. */
    readonly texts: () => Arrival[];
    /** Creates a tenant through the public API, with one provider account for each of the channels. */
    readonly tenant: (channels?: readonly Channel[]) => Promise<StackTenant>;
    /** Counts a tenant's messages by state. */
    readonly states: (tenantId: string) => Promise<Record<string, number>>;
  };

export type OutageStack = ServiceStack & { readonly postgres: PostgresServer; readonly vault: VaultServer };

export type StackOptions = { readonly api?: Environment; readonly worker?: Environment };

/** Starts a stack on the run's shared Postgres and Vault, with its own database and mount. */
export async function startServiceStack(options: StackOptions = {}): Promise<ServiceStack> {
  await using stack = new AsyncDisposableStack();
  const open = async (): Promise<Backends> => {
    const [database, { variables }] = await settleAll([
      testDatabase().then((own) => stack.use(own)),
      openVaultLogins(stack),
    ]);
    return {
      databaseUrl: database.superuserUrl,
      passwords: inject('postgres').passwords,
      keyring: variables,
    };
  };
  return await assemble(open, options, stack);
}

/** Starts a stack with its own Postgres and Vault, which a test may stop. */
export async function startOutageStack(options: StackOptions = {}): Promise<OutageStack> {
  await using stack = new AsyncDisposableStack();
  const [postgres, vault] = await settleAll([
    startPostgres({ durable: false }).then((server) => stack.use(server)),
    startVault().then((server) => stack.use(server)),
  ]);
  return { ...(await assemble(() => prepareBackends(postgres, vault), options, stack)), postgres, vault };
}

async function assemble(
  openBackends: () => Promise<Backends>,
  options: StackOptions,
  stack: AsyncDisposableStack,
): Promise<ServiceStack> {
  const folder = await mkdtemp(join(tmpdir(), 'despatch-stack-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const servers = await openStackServers(openBackends, folder, stack);
  const { nats, natsAdmin, secrets, mint } = servers;
  const admin = postgres(servers.databaseUrl, {
    max: 2,
    onnotice: () => {},
    connection: { search_path: 'despatch' },
  });
  stack.defer(() => admin.end({ timeout: 1 }));
  const twilio = stack.use(await startTwilioStandIn({ keep: 50_000 }));
  const fcm = stack.use(await startFcmStandIn());
  const whatsapp = stack.use(await startWhatsappCloudStandIn());
  const smtp = stack.use(await startSmtpStandIn());
  const gate = stack.use(await startProviderGate(twilio.origin));
  const providerUrls = { twilio: gate.origin, fcm: fcm.origin, 'whatsapp-cloud': whatsapp.origin };
  // Providers report to the first api, whichever worker sent the message.
  const front = await choosePorts(true);
  const start = async (kind: 'api' | 'worker', number: number): Promise<ServiceProcess> => {
    const ports = kind === 'api' && number === 1 ? front : await choosePorts(true);
    const process = { kind, name: `${kind}-${number}`, folder, ports, providerUrls };
    const environment = {
      PUBLIC_BASE_URL: `http://127.0.0.1:${front.api}`,
      // Disables the overload refusal, because tests also run on busy machines.
      EVENT_LOOP_DELAY_MAX_MS: '0',
      ...options[kind],
    };
    return startServiceProcess(stackProcess(servers, { ...process, environment }));
  };
  const pair = async (kind: 'api' | 'worker'): Promise<readonly [ServiceProcess, ServiceProcess]> => {
    const [first, second] = await Promise.all([start(kind, 1), start(kind, 2)]);
    return [stack.use(first), stack.use(second)];
  };
  const [apis, workers] = await Promise.all([pair('api'), pair('worker')]);

  const client = createApiClient(apis[0].origin, () => {});
  const platformToken = await mint(PEOPLE.platform.sub);
  const owned = stack.move();
  return {
    apis,
    workers,
    admin,
    nats,
    natsAdmin,
    secrets,
    platformToken,
    mint,
    controllerEnvironment: controllerEnvironment(servers),
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
