import { join } from 'node:path';
import { STAND_IN_CERTIFICATE } from '#providers/smtp/stand-in-certificate.ts';
import { startOidcIssuer, type OidcIssuer } from '#test/support/oidc-issuer.ts';
import { writeFile } from 'node:fs/promises';
import { migrate } from '../../services/migrate/migrate.ts';
import { startNats } from '../servers/nats.ts';
import { startPostgres } from '../servers/postgres.ts';
import type { Connection } from './connection.ts';
import { mailDelivery } from './deliver-mail.ts';
import type { EnvironmentInput } from './environments.ts';
import { startInbox, type Inbox } from './inbox.ts';
import { startKeyring, type KeyringKind } from './keyring.ts';
import type { Ports } from './ports.ts';
import type { Progress } from './progress.ts';
import { settleAll } from './settle-all.ts';
import { startStandIns, type StandIns } from './stand-ins.ts';
import type { State } from './state.ts';
import { openVendorAccounts } from './vendor-accounts.ts';
import { webhookKeysOf } from './webhook-keys.ts';
import { startWebhookReceiver, type WebhookReceiver } from './webhook-receiver.ts';
import { openWorkerView } from './worker-view.ts';

export type ServersOptions = {
  readonly kind: KeyringKind;
  readonly root: string;
  readonly folder: string;
  readonly ports: Ports;
  readonly state: State;
  readonly progress: Progress;
};

export type Servers = {
  readonly services: EnvironmentInput;
  readonly oidc: OidcIssuer;
  readonly inbox: Inbox;
  readonly standIns: StandIns;
  readonly receiver: WebhookReceiver;
  readonly providerUrls: Connection['providerUrls'];
};

/** Starts all servers that the services need, concurrently; the stack stops them. */
export async function startServers(options: ServersOptions, stack: AsyncDisposableStack): Promise<Servers> {
  const { kind, folder, ports, state, progress } = options;
  const log = progress.note;
  const [databaseUrl, nats, keyring, oidc, inbox, standIns, receiver] = await settleAll([
    openDatabase(options, stack),
    progress.step(
      async () => stack.use(await startNats({ ...natsOptions(options), log })),
      ({ port }) => `NATS on port ${port}`,
    ),
    progress.step(
      async () => stack.use(await startKeyring({ kind, folder, vaultPort: ports.vault, log })),
      ({ summary }) => summary,
    ),
    progress.step(
      async () => stack.use(await startOidcIssuer({ port: ports.issuer })),
      () => `Sign-in issuer on port ${ports.issuer}`,
    ),
    progress.step(
      async () => stack.use(await startInbox({ smtp: ports.smtp, web: ports.inbox })),
      ({ smtpPort }) => `Mail server on port ${smtpPort}, its inbox on port ${ports.inbox}`,
    ),
    progress.step(
      async () =>
        stack.use(await startStandIns({ port: ports.standIns, deliverMail: mailDelivery(ports.smtp) })),
      ({ urls }) => `Stand-ins for ${Object.keys(urls).length} providers on port ${ports.standIns}`,
    ),
    progress.step(
      async () => stack.use(await startWebhookReceiver({ port: ports.webhooks })),
      () => `Receiver of events on port ${ports.webhooks}`,
    ),
  ]);
  const mailCertificateFile = join(folder, 'inbox.pem');
  await writeFile(mailCertificateFile, STAND_IN_CERTIFICATE);
  const providerUrls = { ...standIns.urls, smtp: inbox.url };
  const services: EnvironmentInput = {
    ports,
    state,
    databaseUrl,
    natsUrl: nats.url,
    jwksUrl: oidc.jwksUrl,
    keyring: keyring.environment,
    providerUrls,
    mailCertificateFile,
  };
  const view = stack.use(await openWorkerView(services));
  standIns.know(await openVendorAccounts(view));
  receiver.know(webhookKeysOf(view, receiver.url));
  return { services, oidc, inbox, standIns, receiver, providerUrls };
}

async function openDatabase(
  { folder, ports, state, progress }: ServersOptions,
  stack: AsyncDisposableStack,
): Promise<string> {
  const server = await progress.step(
    async () =>
      stack.use(
        await startPostgres({ dir: join(folder, 'postgres'), port: ports.postgres, log: progress.note }),
      ),
    ({ port }) => `Postgres on port ${port}`,
  );
  await progress.step(
    () =>
      migrate({
        databaseUrl: server.superuserUrl(),
        passwords: state.databasePasswords,
        isOnlyBuild: true,
      }),
    ({ applied }) => (applied.length === 0 ? 'Schema is up to date' : 'Schema made'),
  );
  return server.superuserUrl();
}

function natsOptions({ root, folder, ports, state }: ServersOptions) {
  return {
    dir: join(folder, 'nats'),
    port: ports.nats,
    include: join(root, 'deploy/nats/permissions.conf'),
    env: {
      DESPATCH_NATS_API_PASSWORD: state.natsPasswords.api,
      DESPATCH_NATS_WORKER_PASSWORD: state.natsPasswords.worker,
      DESPATCH_NATS_CONTROLLER_PASSWORD: state.natsPasswords.controller,
    },
  };
}
