import { createEgressGuard } from '#core/platform/http/egress-guard.ts';
import { createHttpClient } from '#core/platform/http/http-client.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { createProviderContexts } from '#providers/context.ts';
import { buildWorker, type Worker, type WorkerDeps } from '../../services/worker/build-worker.ts';
import { createEvents } from '../../services/worker/events.ts';
import { createEndpointSecrets } from '../../services/worker/webhooks/endpoint-secrets.ts';
import type { WorkerSettings } from '../../services/worker/worker-settings.ts';

export type TestWorkerOptions = Pick<WorkerDeps, 'store' | 'credentials' | 'receipts'> & {
  /** Default: there are no webhook endpoints. */
  readonly webhooks?: WorkerDeps['webhooks'] | undefined;
  /** Default: no secret was replaced. */
  readonly replacedCredentials?: WorkerDeps['credentials'];
  /** Origin of the Twilio stand-in. */
  readonly twilioOrigin: string;
  /** Origins of other providers, by their ids. Default: their real origins. */
  readonly origins?: Readonly<Record<string, string>> | undefined;
  /** Default: events are not published. */
  readonly events?: WorkerDeps['events'];
  readonly settings?: Partial<WorkerSettings>;
};

const NONE: WorkerDeps['credentials'] = {
  get: async () => ({ ok: false, reason: 'missing' }),
  invalidate: () => undefined,
  forgetStale: () => undefined,
  autonomySeconds: () => null,
};

const NO_ENDPOINTS: WebhookStore = {
  matchEvents: async () => ({ claims: [], isLeftDue: false, behind: [], missed: [], failures: [] }),
  tenantsBehind: async () => ({ tenantIds: [], newestPass: 1, isWhole: true }),
  endpointsBehind: async () => ({ tenantIds: [], next: null }),
  claimDeliveries: async () => ({ claims: [], next: null, failures: [] }),
  completeDeliveries: async () => ({ stale: 0 }),
  changeEndpoint: async () => undefined,
  changedEndpoints: async () => [],
  takeEndpointTests: async () => [],
  storeEndpointTest: async () => undefined,
  endpointCounts: async () => [],
  oldestUnmatchedSeconds: async () => 0,
  oldestDueSeconds: async () => 0,
};

/** Starts a worker in this process that calls a stand-in. The stack stops it. */
export function startTestWorker(stack: AsyncDisposableStack, options: TestWorkerOptions): Worker {
  const {
    store,
    credentials,
    replacedCredentials,
    receipts,
    webhooks,
    twilioOrigin,
    origins,
    events,
    settings,
  } = options;
  const http = stack.use(createHttpClient());
  const guard = createEgressGuard({ allowCidrs: [], ports: [25], resolveHost: async () => [] });
  const worker = buildWorker({
    store,
    credentials,
    replacedCredentials: replacedCredentials ?? NONE,
    receipts,
    webhooks: webhooks ?? {
      store: NO_ENDPOINTS,
      secrets: createEndpointSecrets({
        decrypter: { decrypt: () => Promise.reject(new Error('there are no secrets')) },
        entriesMax: 1,
        ttlMs: 1,
      }),
      http,
      allowHttp: false,
      settings: { inFlightMax: 1, deadlineMs: 1_000, leaseMs: 60_000 },
    },
    contextOf: createProviderContexts({
      http,
      resolve: guard.resolve,
      baseUrls: { ...origins, twilio: twilioOrigin },
    }),
    events: events ?? createEvents(silentLogger, createWorkerMetrics(), Date.now),
    settings: {
      name: 'w1',
      inFlightMax: 64,
      queuedPerTenantMax: 100,
      queuedMax: 1_000,
      // Long enough for a stand-in on a busy machine: a call without an answer would be repeated.
      deadlineMs: 10_000,
      leaseMs: 60_000,
      largeContentBytesMax: 16_777_216,
      sweepMs: 100,
      ...settings,
    },
  });
  stack.defer(() => worker.stop());
  return worker;
}
