import { epochMs } from '#core/domain/clock.ts';
import type { EndpointHealth } from '#core/domain/webhooks/endpoint-state.ts';
import type { TenantsWithSurplus, ExpectedWork } from '#core/domain/queue/expected-work.ts';
import type { ChangeOfEndpoint } from '#core/domain/tenant/notice.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { createSidePace } from '../beside-sends/side-pace.ts';
import { createDueClaims, type DueClaims } from './due-claims.ts';
import { createEventMatcher } from './event-matcher.ts';
import { createPaceClaims } from './pace-claims.ts';
import { createBehindLooks } from './behind-looks.ts';
import type { DeliverEventDeps } from './deliver-event.ts';
import type { Called } from './call-endpoint.ts';
import { createEndpointCaller, type EndpointCaller } from './endpoint-caller.ts';
import { createDeliveryRecorder } from './delivery-recorder.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';
import { createEndpointTests } from './endpoint-tests.ts';
import { createEndpointWatch } from './endpoint-watch.ts';

export type WebhookSettings = {
  /** Maximum number of concurrent calls to endpoints. */
  readonly inFlightMax: number;
  /** Total time of one call in milliseconds. */
  readonly deadlineMs: number;
  /** Duration of a claim's lease in milliseconds. */
  readonly leaseMs: number;
};

export type WebhooksDeps = Omit<DeliverEventDeps, 'epochMs'> & {
  readonly store: WebhookStore;
  readonly secrets: EndpointSecrets;
  readonly settings: WebhookSettings;
  readonly isSending: () => boolean;
  /** The expected number of events per tenant, derived from the messages sent. */
  readonly expected: ExpectedWork;
  readonly events: {
    readonly webhookCalled: (of: Called) => void;
    readonly endpointMoved: (endpoint: WebhookEndpoint, health: EndpointHealth) => void;
    readonly eventUnreadable: (endpoint: WebhookEndpoint, eventId: string, error: unknown) => void;
    readonly deliveriesDelayed: (error: unknown, claims: number) => void;
    readonly taskFailed: (task: string, error: unknown) => void;
  };
  /** Called when there may be due deliveries to claim. */
  readonly onDue: () => void;
  /** Called when tenants wait to be matched, now or after a delay. */
  readonly onBehind: (delayMs?: number) => void;
};

export type Webhooks = {
  /** Notes tenants with new events that may match their endpoints. */
  matchSoon(tenantIds: readonly string[]): void;
  /**
   * Matches the events of waiting tenants, and takes as many claims as there is capacity for. Tenants whose matching fails are
   * found again by `findBehind`.
   * @throws after the other tenants are matched.
   */
  match(): Promise<void>;
  /** Queries for endpoints that are behind, for any reason. */
  findBehind(): Promise<void>;
  /**
   * Claims due deliveries, as far as there is capacity.
   * @throws after the others are claimed, if the events of an endpoint cannot be read.
   */
  claim(): Promise<void>;
  /** Begins the requested test calls. */
  callTested(): Promise<void>;
  /**
   * Returns the endpoint's claimed events if the change affects how, or whether, they are delivered; they are then claimed again.
   */
  endpointChanged(endpointId: string, changed: Exclude<ChangeOfEndpoint, 'test'>): void;
  /** Queries for changes of the endpoints that are being called, because a notice may be lost or late. */
  findChanged(): Promise<void>;
  forgetStale(): void;
  stop(): Promise<void>;
  /** Stops retrying to record: the leases run out, and other workers call again. */
  abandon(): void;
  readonly inFlight: () => number;
};

/** Creates the worker's delivery of events to endpoints. It opens no connections and starts no timers for its tasks. */
export function createWebhooks(deps: WebhooksDeps): Webhooks {
  const { store, settings, secrets, events } = deps;
  const aborted = new AbortController();
  const stopped = new AbortController();
  const calling = { http: deps.http, allowHttp: deps.allowHttp, epochMs };
  const withSurplus = (): TenantsWithSurplus => deps.expected.withSurplus(performance.now());
  const pace = createSidePace({
    kind: 'events',
    isSending: deps.isSending,
    signal: stopped.signal,
  });
  const recorder = createDeliveryRecorder({
    store,
    onFailure: events.deliveriesDelayed,
    signal: aborted.signal,
  });
  const watch = createEndpointWatch({
    store,
    onStored: (endpoint, failures) => caller.healthStored(endpoint, failures),
    onMoved: events.endpointMoved,
    onFailed: (error) => events.taskFailed('endpoint_health', error),
    random: Math.random,
  });
  const caller: EndpointCaller = createEndpointCaller({
    ...calling,
    secrets,
    recorder,
    watch,
    inFlightMax: settings.inFlightMax,
    deadlineMs: settings.deadlineMs,
    withSurplus,
    use: (calls) => deps.expected.use(calls, performance.now()),
    isSending: deps.isSending,
    random: Math.random,
    onCalled: events.webhookCalled,
    onUnreadable: events.eventUnreadable,
    onRoom: () => {
      if (dueClaims.isLeftDue) deps.onDue();
    },
  });
  const tests = createEndpointTests({
    ...calling,
    store,
    secrets,
    onFailed: (error) => events.taskFailed('endpoint_tests', error),
  });
  const claiming = {
    store,
    caller,
    pace: createPaceClaims(pace, withSurplus, (claims) => caller.waitedMs(claims)),
    leaseMs: settings.leaseMs,
    isStopping: (): boolean => stopped.signal.aborted,
  };
  const matcher = createEventMatcher({ ...claiming, onDue: deps.onDue, onBehind: deps.onBehind });
  const dueClaims: DueClaims = createDueClaims(claiming);

  function endpointChanged(endpointId: string, changed: Exclude<ChangeOfEndpoint, 'test'>): void {
    if (changed === 'secrets') secrets.invalidate(endpointId);
    if (changed !== 'due') caller.endpointChanged(endpointId);
    deps.onDue();
  }

  return {
    matchSoon: matcher.matchSoon,
    match: matcher.match,
    findBehind: createBehindLooks({
      store,
      onBehind: matcher.matchSoon,
      isStopping: claiming.isStopping,
    }),
    claim: dueClaims.claim,
    callTested: tests.call,
    endpointChanged,
    async findChanged() {
      const called = caller.endpoints;
      if (called.length === 0) return;
      // A replaced secret cannot be mistaken for the current one, because each claim brings its own ciphertext.
      for (const id of await store.changedEndpoints(called)) endpointChanged(id, 'settings');
    },
    forgetStale: secrets.forgetStale,
    async stop() {
      stopped.abort();
      await Promise.all([caller.stop(), tests.drain()]);
    },
    abandon: () => aborted.abort(),
    inFlight: () => caller.inFlight,
  };
}
