import { randomBytes, randomUUID } from 'node:crypto';
import type { EndpointHealth } from '#core/domain/webhooks/endpoint-state.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import { createExpectedWork, type ExpectedWork } from '#core/domain/queue/expected-work.ts';
import type { HttpRequest, HttpResult } from '#core/domain/sending/http-exchange.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { DeliveryClaim, WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { createEndpointSecrets } from '../../services/worker/webhooks/endpoint-secrets.ts';
import { createWebhooks } from '../../services/worker/webhooks/webhooks.ts';

export const SECRET = `whsec_${randomBytes(32).toString('base64')}`;
export const TENANT = randomUUID() as TenantId;
export const FINE: EndpointHealth = {
  status: 'active',
  statusReason: null,
  failures: 0,
  failingSince: null,
  callAt: null,
};
export const OK: HttpResult = { kind: 'response', status: 200, headers: {}, text: '' };
export const ERROR: HttpResult = { kind: 'response', status: 500, headers: {}, text: 'no' };

export function endpointOf(more: Partial<WebhookEndpoint> = {}): WebhookEndpoint {
  return {
    id: randomUUID(),
    number: 1,
    tenantId: TENANT,
    url: 'https://hooks.example/in',
    eventTypes: ['*'],
    finalOnly: false,
    channels: [],
    tags: [],
    headers: {},
    ordered: false,
    maskRecipients: false,
    signatures: ['v1'],
    status: 'active',
    failures: 0,
    failingSince: null,
    version: 1,
    secret: 'secret',
    previousSecret: null,
    signingKey: null,
    clientCertificate: null,
    ...more,
  };
}

function eventOf(message = 1): StoredEvent {
  return {
    seq: 7,
    id: randomUUID(),
    type: 'message.queued',
    at: new Date(),
    details: null,
    message: {
      sequence: 1,
      id: randomUUID(),
      test: false,
      externalId: null,
      channel: 'sms',
      to: '+15551230042',
      category: 'transactional',
      metadata: { message },
      tags: null,
      attempt: null,
      accountId: null,
      provider: null,
      isFinal: false,
    },
  };
}

let claimNumber = 0;
/** @param messages the claim contains one event of each. */
export function claimOf(
  endpoint: WebhookEndpoint,
  messages: readonly number[],
  more: Partial<DeliveryClaim> = {},
): DeliveryClaim {
  return {
    dueId: ++claimNumber,
    claim: claimNumber,
    endpoint,
    purgeOn: '2026-02-02',
    attempts: 0,
    manual: false,
    isProbe: endpoint.status === 'failing',
    probeUntil: endpoint.status === 'failing' ? new Date(Date.now() + 60_000) : null,
    events: messages.map((messageSeq, i) => ({ seq: i + 1, event: eventOf(messageSeq), messageSeq })),
    blocked: new Set(),
    waitsSince: Date.now(),
    isPaced: false,
    leaseEndsAt: performance.now() + 60_000,
    ...more,
  };
}

type Answer = (request: HttpRequest) => HttpResult | Promise<HttpResult>;

/** Creates the worker's webhooks with a store that hands out these claims and a receiver that gives this answer. */
export function scriptedWebhooks(
  claims: readonly DeliveryClaim[],
  answer: Answer,
  more: {
    inFlightMax?: number;
    allowHttp?: boolean;
    isSending?: boolean;
    expected?: ExpectedWork;
    /** Until then, nothing is recorded, or at all if it rejects. */
    recorded?: Promise<void>;
  } & Partial<Pick<WebhookStore, 'matchEvents'>> = {},
) {
  const left = [...claims];
  const completions: DeliveryCompletion[] = [];
  const calls: HttpRequest[] = [];
  const failed: unknown[] = [];
  const health = new Map<string, EndpointHealth>();
  const moved: string[] = [];
  const vault = { isAway: false, asked: 0 };
  const gauge = { now: 0, most: 0 };
  const tests: { id: string; endpoint: WebhookEndpoint }[] = [];
  const tested: unknown[] = [];
  const versions = new Map<string, number>();
  const missed: string[] = [];
  const delays: (number | undefined)[] = [];
  const store: WebhookStore = {
    matchEvents:
      more.matchEvents ??
      (async () => {
        const none = { isLeftDue: false, behind: [], failures: [] };
        return missed.length > 0
          ? { ...none, claims: [], missed: missed.splice(0, 1) }
          : { ...none, claims: left.splice(0), missed: [] };
      }),
    endpointsBehind: async () => ({ tenantIds: [TENANT], next: null }),
    tenantsBehind: async () => ({ tenantIds: [], newestPass: 1, isWhole: false }),
    claimDeliveries: async ({ claimsMax, tenantClaimsMax, busy }) => {
      const taken = new Map<string, number>();
      const idle = left.filter(({ endpoint: { id, tenantId } }) => {
        const its = (taken.get(tenantId) ?? 0) + 1;
        if (busy.includes(id) || busy.includes(tenantId) || its > tenantClaimsMax) return false;
        taken.set(tenantId, its);
        return true;
      });
      // One claim per endpoint and query, as in the database.
      const free = idle
        .filter((one, i) => idle.findIndex(({ endpoint }) => endpoint.id === one.endpoint.id) === i)
        .slice(0, claimsMax);
      for (const one of free) left.splice(left.indexOf(one), 1);
      return { claims: free, next: null, failures: [] };
    },
    completeDeliveries: async (some) => {
      await more.recorded;
      completions.push(...some);
      return { stale: 0 };
    },
    changeEndpoint: async (id, _version, decide) => {
      const now = health.get(id) ?? FINE;
      const next = decide(now, Date.now()) ?? now;
      health.set(id, next);
      return next;
    },
    changedEndpoints: async (known) =>
      known.flatMap(({ id, version }) => (versions.get(id) === version ? [] : [id])),
    takeEndpointTests: async () => tests.splice(0),
    storeEndpointTest: async (_id, result) => void tested.push(result),
    oldestUnmatchedSeconds: async () => 0,
    oldestDueSeconds: async () => 0,
    endpointCounts: async () => [],
  };
  const webhooks = createWebhooks({
    store,
    secrets: createEndpointSecrets({
      decrypter: {
        decrypt: async () => {
          vault.asked++;
          if (vault.isAway) throw new Error('Vault is away');
          return Buffer.from(SECRET);
        },
      },
      entriesMax: 1_000,
      ttlMs: 60_000,
    }),
    settings: { inFlightMax: more.inFlightMax ?? 64, deadlineMs: 1_000, leaseMs: 60_000 },
    allowHttp: more.allowHttp ?? false,
    isSending: () => more.isSending ?? false,
    expected: more.expected ?? createExpectedWork(),
    http: async (request) => {
      calls.push(request);
      gauge.most = Math.max(gauge.most, ++gauge.now);
      const result = await answer(request);
      gauge.now--;
      return result;
    },
    events: {
      webhookCalled: () => undefined,
      endpointMoved: (_endpoint, { status }) => void moved.push(status),
      eventUnreadable: (_endpoint, _id, error) => void failed.push(error),
      deliveriesDelayed: (error) => void failed.push(error),
      taskFailed: (_task, error) => void failed.push(error),
    },
    onDue: () => void webhooks.claim(),
    onBehind: (delayMs) => {
      delays.push(delayMs);
      void webhooks.match().catch((error: unknown) => failed.push(error));
    },
  });
  return {
    webhooks,
    left,
    completions,
    calls,
    failed,
    health,
    moved,
    vault,
    gauge,
    tests,
    tested,
    versions,
    missed,
    delays,
  };
}

export const dataOf = ({ body }: HttpRequest) =>
  (JSON.parse(String(body)) as { data: { seq: number; to: string; metadata: { message: number } } }).data;
export const messageOf = (request: HttpRequest): number => dataOf(request).metadata.message;

/** Holds all answers until it is released, and answers at once afterwards. */
export function hold(answer: Answer = () => OK): { readonly answer: Answer; release(): void } {
  const held = Promise.withResolvers<void>();
  return {
    answer: async (request) => {
      await held.promise;
      return answer(request);
    },
    release: held.resolve,
  };
}
