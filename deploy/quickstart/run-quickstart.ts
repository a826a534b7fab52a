import { mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { accountsOf, FAILED_OVER, nextSmsAccount, REPORTED_MAIL } from './accounts.ts';
import { createApiClient, type ApiClient } from './api-client.ts';
import type { Connection } from './connection.ts';
import { openDataFolder } from './data-folder.ts';
import { apiEnvironment, workerEnvironment } from './environments.ts';
import { awaitFirstEvents, isTold } from './first-events.ts';
import { sendFailedOver } from './first-failover.ts';
import { deliveryTable, isDelivered, sendFirstMessages } from './first-messages.ts';
import { chooseFormatter, guide } from './guide.ts';
import { lockFolder } from './instance-lock.ts';
import { chooseKeyring } from './keyring.ts';
import type { Options } from './options.ts';
import { mintTokens, PEOPLE, type Tokens } from './people.ts';
import { choosePortsOf, type Ports } from './ports.ts';
import type { Progress } from './progress.ts';
import { startServers, type Servers } from './servers.ts';
import { startService, type ServiceOptions } from './service-process.ts';
import { settleAll } from './settle-all.ts';
import { writePrivateJson, writeState, type State } from './state.ts';
import { accountIdOf, ensureTenant } from './tenants.ts';

export type QuickstartOptions = {
  readonly root: string;
  readonly options: Options;
  readonly progress: Progress;
};

type Tenants = NonNullable<State['tenants']>;

/**
 * Starts everything, sends one message per channel, and runs until a signal, or exits with `--once`. Stops everything it
 * started before it returns or throws.
 * @returns the exit code.
 */
export async function runQuickstart({ root, options, progress }: QuickstartOptions): Promise<number> {
  const { stateDir, once } = options;
  await using stack = new AsyncDisposableStack();
  await mkdir(stateDir, { recursive: true });
  stack.use(await lockFolder(stateDir));
  // Secrets of one keyring cannot be decrypted with the other, so each has its own data folder.
  const kind = await chooseKeyring(options.vault);
  const folder = join(stateDir, kind);
  progress.note(`Starting Despatch, with its data in ${shown(root, folder)}`);
  const ports = await choosePortsOf(stateDir, options.anyPorts);
  const issuer = `http://127.0.0.1:${ports.issuer}`;
  const state = await openDataFolder({ folder, fresh: options.fresh, issuer, note: progress.note });
  const servers = await startServers({ kind, root, folder, ports, state, progress }, stack);
  const logFolder = join(folder, 'logs');
  await startServices({ root, logFolder, servers, ports, progress }, stack);

  const baseUrl = `http://127.0.0.1:${ports.api}`;
  const tokens = await mintTokens(servers.oidc, state.issuer);
  const api = createApiClient(baseUrl, progress.note);
  const tenants = await progress.step(
    () => ensureTenants(api, tokens, state.tenants, servers),
    ({ first, other }) =>
      `Tenants ${first.slug} and ${other.slug}, each with a key, providers, a route for sms and an endpoint for events`,
  );
  await writeState(folder, { ...state, tenants });
  const connection = connectionOf({ ports, servers, tokens, tenants });
  const connectionFile = join(stateDir, 'quickstart.json');
  await writePrivateJson(connectionFile, connection);

  const owner = { token: tokens.owner, tenantSlug: tenants.first.slug };
  // The database uses the same clock with a finer resolution.
  const since = new Date(Date.now() - 1_000);
  const { deliveries, events } = await progress.step(
    async () => {
      // Selects the reporting provider: the mail server's account is older, so it would be chosen, and it never reports.
      const email = await accountIdOf(api, owner, { provider: REPORTED_MAIL, label: 'Resend (stand-in)' });
      const { serviceKey } = tenants.first;
      const sent = await sendFirstMessages(api, serviceKey, arrivalsOf(servers), { email });
      const [first, second] = FAILED_OVER;
      servers.standIns.fail(first.provider, 1);
      const callers = { serviceKey, owner };
      sent.push(await sendFailedOver(api, callers, () => servers.standIns.arrivals(second.provider)));
      const { received } = servers.receiver;
      return {
        deliveries: sent,
        events: await awaitFirstEvents(api, owner, sent, since, () => received),
      };
    },
    () => 'One message per channel, an sms whose first provider was down, and their events:',
  );
  process.stdout.write(`\n${deliveryTable(deliveries, events)}\n\n`);
  const isAllDelivered = deliveries.every((one) => isDelivered(one) && isTold(events.get(one.id)));
  if (!isAllDelivered) process.stderr.write(`Not all arrived; the logs are in ${shown(root, logFolder)}\n`);
  if (once) return isAllDelivered ? 0 : 1;

  const files = { connectionFile: shown(root, connectionFile), logFolder: shown(root, logFolder) };
  const failedOver = deliveries.at(-1)?.id ?? '';
  process.stdout.write(guide({ connection, failedOver, formatter: await chooseFormatter(), ...files }));
  await untilSignal();
  progress.note('Stopping');
  return 0;
}

type ServicesInput = {
  readonly root: string;
  readonly logFolder: string;
  readonly servers: Servers;
  readonly ports: Ports;
  readonly progress: Progress;
};

async function startServices(
  { root, logFolder, servers, ports, progress }: ServicesInput,
  stack: AsyncDisposableStack,
): Promise<void> {
  await mkdir(logFolder, { recursive: true });
  const start = async (options: Pick<ServiceOptions, 'name' | 'environment' | 'readyUrl' | 'listenUrl'>) =>
    stack.use(await startService({ root, logFolder, note: progress.note, ...options }));
  await settleAll([
    progress.step(
      () =>
        start({
          name: 'api',
          environment: apiEnvironment(servers.services),
          readyUrl: `http://127.0.0.1:${ports.apiMetrics}/readyz`,
          listenUrl: `http://127.0.0.1:${ports.api}/v1/openapi.json`,
        }),
      () => `The api on port ${ports.api}`,
    ),
    progress.step(
      () =>
        start({
          name: 'worker',
          environment: workerEnvironment(servers.services),
          readyUrl: `http://127.0.0.1:${ports.workerMetrics}/readyz`,
        }),
      () => 'The worker',
    ),
  ]);
}

async function ensureTenants(
  api: ApiClient,
  tokens: Tokens,
  saved: Tenants | undefined,
  { inbox: { smtpPort }, receiver }: Servers,
): Promise<Tenants> {
  const acme = {
    slug: 'acme',
    name: 'Acme',
    ownerToken: tokens.owner,
    accounts: [...accountsOf('acme', smtpPort), nextSmsAccount('acme')],
    smsRoute: FAILED_OVER,
    endpointUrl: `${receiver.url}/acme`,
    viewer: PEOPLE.viewer.sub,
  };
  const globex = {
    slug: 'globex',
    name: 'Globex',
    ownerToken: tokens.otherOwner,
    accounts: [...accountsOf('globex', smtpPort), nextSmsAccount('globex')],
    smsRoute: FAILED_OVER,
    endpointUrl: `${receiver.url}/globex`,
  };
  const [first, other] = await settleAll([
    ensureTenant(api, acme, saved?.first, tokens.platform),
    ensureTenant(api, globex, saved?.other, tokens.platform),
  ]);
  return { first, other };
}

type ConnectionInput = {
  readonly ports: Ports;
  readonly servers: Servers;
  readonly tokens: Tokens;
  readonly tenants: Tenants;
};

function connectionOf({ ports, servers, tokens, tenants }: ConnectionInput): Connection {
  return {
    baseUrl: `http://127.0.0.1:${ports.api}`,
    metricsUrls: {
      api: `http://127.0.0.1:${ports.apiMetrics}/metrics`,
      worker: `http://127.0.0.1:${ports.workerMetrics}/metrics`,
    },
    tenantSlug: tenants.first.slug,
    serviceKey: tenants.first.serviceKey,
    testKey: tenants.first.testKey,
    adminToken: tokens.owner,
    platformToken: tokens.platform,
    viewerToken: tokens.viewer,
    otherTenant: {
      slug: tenants.other.slug,
      serviceKey: tenants.other.serviceKey,
      adminToken: tokens.otherOwner,
    },
    inboxUrl: servers.inbox.url,
    providerUrls: servers.providerUrls,
    webhookReceiverUrl: servers.receiver.url,
  };
}

function arrivalsOf({ standIns }: Servers) {
  return {
    sms: () => standIns.arrivals('twilio'),
    email: () => standIns.arrivals('resend'),
    push: () => standIns.arrivals('fcm'),
    whatsapp: () => standIns.arrivals('whatsapp-cloud'),
  };
}

/** Handles only the first signal: a second one ends the process and its children immediately. */
function untilSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
}

function shown(root: string, path: string): string {
  const inside = relative(root, path);
  return inside.startsWith('..') ? path : inside;
}
