import { connect } from '@nats-io/transport-node';
import { jetstreamManager } from '@nats-io/jetstream';
import { encodeWakes } from '#core/domain/queue/wake.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import type { Credentials } from '../../services/worker/accounts/credentials.ts';
import type { Worker, WorkerDeps } from '../../services/worker/build-worker.ts';
import type { WorkerSettings } from '../../services/worker/worker-settings.ts';
import { acceptBatch, acceptRow, seedAccount, seedTenant, type SeededTenant } from './seed.ts';
import { testNats } from './servers.ts';
import { startTestWorker } from './test-worker.ts';
import { setupStores } from './setup-stores.ts';

type Stores = Awaited<ReturnType<typeof setupStores>>;

const TWILIO = { accountSid: `AC${'0'.repeat(32)}`, from: '+15005550006' };

/** Returns credentials that need no keyring and can be made unavailable. */
function scriptedCredentials(): Credentials & { down: boolean } {
  const credentials = {
    down: false,
    get: () =>
      Promise.resolve(
        credentials.down
          ? ({ ok: false, reason: 'unavailable' } as const)
          : ({ ok: true, secret: { authToken: 'a'.repeat(32), apiToken: 'sinch' } } as const),
      ),
    invalidate: () => undefined,
    forgetStale: () => undefined,
    autonomySeconds: () => 0,
  };
  return credentials;
}

/** Starts workers in this process that use real servers and deliver to a stand-in of Twilio. */
export async function setupWorkers(
  settings: Partial<WorkerSettings> = {},
  parts: Pick<WorkerDeps, 'receipts'> & {
    /** Creates the webhook delivery on the worker's own connections. */
    readonly webhooksOn?: (stores: Stores) => WorkerDeps['webhooks'];
    readonly replacedCredentials?: Credentials;
    readonly origins?: Readonly<Record<string, string>>;
  } = {},
) {
  const stack = new AsyncDisposableStack();
  const stores = stack.use(await setupStores());
  const nats = testNats();
  const twilio = stack.use(await startTwilioStandIn());
  const credentials = scriptedCredentials();
  const openBroker = async (name: string) =>
    stack.use(
      await openNats({
        config: { servers: [nats.url], prefix: nats.prefix, replicas: 1 },
        log: silentLogger,
        name,
      }),
    );
  const broker = await openBroker('test');
  await broker.ensureStream();
  let workers = 0;
  const { webhooksOn, ...workerParts } = parts;

  function startWorker(overrides: Partial<WorkerSettings> = {}, store = stores.store): Worker {
    const consuming = new AbortController();
    const worker = startTestWorker(stack, {
      store,
      credentials,
      twilioOrigin: twilio.origin,
      ...workerParts,
      webhooks: webhooksOn?.(stores),
      settings: { name: `w${++workers}`, ...settings, ...overrides },
    });
    broker.consumeWakes({
      maxMessages: 500,
      onWake: (wake) => worker.wake(Buffer.from(wake.payload).toString(), wake.kind),
      onRecreated: worker.streamRecreated,
      signal: consuming.signal,
    });
    stack.defer(() => consuming.abort());
    return worker;
  }

  const tenant = await seedTenant(stores.admin, { inFlightMax: 50 });
  const accountId = await seedAccount(stores.admin, tenant.tenantId, {
    provider: 'twilio',
    config: TWILIO,
  });

  /** Accepts a message and, by default, wakes the workers. */
  async function send(
    n: number,
    overrides: Record<string, unknown> = {},
    options: { wake?: boolean; of?: SeededTenant } = {},
  ) {
    const of = options.of ?? tenant;
    const rows = Array.from({ length: n }, () => acceptRow(of, overrides));
    await acceptBatch(stores.api, rows, options.wake === false ? 200 : 5_000);
    const wakes = rows.map(({ seq, account_id }) => ({ seq, tenantId: of.tenantId, accountId: account_id }));
    if (options.wake !== false) {
      const { failed } = await broker.publishWakes(
        wakes.map((wake) => ({
          kind: 'normal' as const,
          id: String(wake.seq),
          payload: encodeWakes([wake]),
        })),
      );
      if (failed.length > 0) throw new Error(`wake-ups were not taken: ${failed.join(', ')}`);
    }
    return wakes;
  }
  async function deleteStream(): Promise<void> {
    const connection = await connect({ servers: nats.url });
    await (await jetstreamManager(connection)).streams.delete(`${nats.prefix.toUpperCase()}_WAKE`);
    await connection.close();
  }
  async function statuses(): Promise<Record<string, number>> {
    const rows = await stores.admin<{ status: string; n: number }[]>`
      select status, count(*) as n from despatch.message_states group by status`;
    return Object.fromEntries(rows.map((row) => [row.status, row.n]));
  }
  return {
    ...stores,
    broker,
    twilio,
    credentials,
    tenant,
    accountId,
    startWorker,
    deleteStream,
    send,
    statuses,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
