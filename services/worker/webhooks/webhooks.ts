import type { EndpointHealth } from '#core/domain/endpoint-state.ts';
import { isBehind, type Behind, type ExpectedWork } from '#core/domain/expected-work.ts';
import type { ChangeOfEndpoint } from '#core/domain/endpoint-notice.ts';
import { matchesEndpoint } from '#core/domain/webhook-endpoint.ts';
import type { WebhookEndpoint, WebhookStore } from '#core/store/webhook-deliveries.ts';
import { createBehindLooks } from './behind-looks.ts';

import type { DeliverEventDeps } from './deliver-event.ts';
import { createDeliveryLane, type Called, type DeliveryLane } from './delivery-lane.ts';
import { createDeliveryRecorder } from './delivery-recorder.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';
import { createEndpointTests } from './endpoint-tests.ts';
import { createEndpointWatch } from './endpoint-watch.ts';
import { createRestPace } from './rest-pace.ts';

export type WebhookSettings = {
  /** Calls to endpoints at once. */
  readonly inFlightMax: number;
  /** Total time of one call in milliseconds. */
  readonly deadlineMs: number;
  /** How long a claim is ours, in milliseconds. */
  readonly leaseMs: number;
};

export type WebhooksDeps = Omit<DeliverEventDeps, 'now'> & {
  readonly store: WebhookStore;
  readonly secrets: EndpointSecrets;
  readonly settings: WebhookSettings;
  readonly isSending: () => boolean;
  /** Events that endpoints are to be told of, by what was sent. */
  readonly expected: ExpectedWork;
  readonly events: {
    readonly webhookCalled: (of: Called) => void;
    readonly endpointMoved: (endpoint: WebhookEndpoint, health: EndpointHealth) => void;
    readonly eventUnreadable: (endpoint: WebhookEndpoint, eventId: string, error: unknown) => void;
    readonly deliveriesDelayed: (error: unknown, claims: number) => void;
    readonly taskFailed: (task: string, error: unknown) => void;
  };
  /** There may be due deliveries to claim. */
  readonly onDue: () => void;
  /** Tenants wait to be matched further, now or after a while. */
  readonly onBehind: (delayMs?: number) => void;
};

export type Webhooks = {
  /** Tells that these tenants have events which their endpoints may be told of. */
  matchSoon(tenantIds: readonly string[]): void;
  /**
   * Matches the events of tenants that wait for it, and calls for what there is room for. Those of which that fails are found
   * again as tenants that are behind.
   * @throws once the others are matched.
   */
  match(): Promise<void>;
  /** Looks for endpoints that are behind, whatever the reason. */
  findBehind(): Promise<void>;
  /** Claims what is due, as far as there is room. */
  claim(): Promise<void>;
  /** Begins the calls that people wait for. */
  callTested(): Promise<void>;
  /** What is claimed of it is claimed anew where it may be called otherwise now, or not at all. */
  endpointChanged(endpointId: string, changed: Exclude<ChangeOfEndpoint, 'test'>): void;
  /** Looks for endpoints that were changed while they are called: a notice may be lost, or late. */
  findChanged(): Promise<void>;
  forgetStale(): void;
  stop(): Promise<void>;
  /** Stops trying to record: leases run out, and other workers call again. */
  abandon(): void;
  readonly inFlight: () => number;
};

const TENANTS_AT_ONCE = 50;
const ENDPOINTS_AT_ONCE = 64;
/** Of a look for what is due; the next look goes on from there. */
const LOOKS_MAX = 16;
/** Until what somebody else had is matched: twice as long each time in a row. */
const MISSED_MS_MIN = 50;
const MISSED_MS_MAX = 1_600;

/** The worker's part in telling endpoints of events. Opens nothing itself, and repeats nothing. */
export function createWebhooks(deps: WebhooksDeps): Webhooks {
  const { store, settings, secrets, events } = deps;
  const aborted = new AbortController();
  const stopped = new AbortController();
  const calling = { http: deps.http, allowHttp: deps.allowHttp, now: Date.now };
  const behind = (): Behind => deps.expected.behind(performance.now());
  const pace = createRestPace({ isSending: deps.isSending, signal: stopped.signal });
  const recorder = createDeliveryRecorder({
    store,
    onFailure: events.deliveriesDelayed,
    signal: aborted.signal,
  });
  const watch = createEndpointWatch({
    store,
    onKnown: (endpoint, health) => lane.known(endpoint, health),
    onMoved: events.endpointMoved,
    onFailed: (error) => events.taskFailed('endpoint_health', error),
    random: Math.random,
  });
  const lane: DeliveryLane = createDeliveryLane({
    ...calling,
    secrets,
    recorder,
    watch,
    inFlightMax: settings.inFlightMax,
    deadlineMs: settings.deadlineMs,
    behind,
    use: (calls) => deps.expected.use(calls, performance.now()),
    isSending: deps.isSending,
    random: Math.random,
    onCalled: events.webhookCalled,
    onUnreadable: events.eventUnreadable,
    onRoom: () => {
      if (isLeftDue) deps.onDue();
    },
  });
  const tests = createEndpointTests({
    ...calling,
    store,
    secrets,
    onFailed: (error) => events.taskFailed('endpoint_tests', error),
  });
  const waiting = new Set<string>();
  let missedMs = MISSED_MS_MIN;
  let cursor: string | null = null;
  /** The last look had no room for all that is due. */
  let isLeftDue = false;

  const isStopping = (): boolean => stopped.signal.aborted;

  /** The part of what is done for these tenants that is for those which are behind. */
  function surplusOf(tenantIds: readonly string[]): number {
    const now = behind();
    const surplus = tenantIds.filter((id) => isBehind(now, id));
    return surplus.length / Math.max(1, tenantIds.length);
  }

  function matchSoon(tenantIds: readonly string[]): void {
    if (tenantIds.length === 0) return;
    for (const id of tenantIds) waiting.add(id);
    deps.onBehind();
  }

  function endpointChanged(endpointId: string, changed: Exclude<ChangeOfEndpoint, 'test'>): void {
    if (changed === 'secrets') secrets.invalidate(endpointId);
    if (changed !== 'due') lane.endpointChanged(endpointId);
    deps.onDue();
  }

  /** Most often the endpoint's row is free again by then. */
  function matchMissed(tenantIds: ReadonlySet<string>): void {
    if (tenantIds.size === 0) {
      missedMs = MISSED_MS_MIN;
      return;
    }
    for (const id of tenantIds) waiting.add(id);
    deps.onBehind(missedMs);
    missedMs = Math.min(2 * missedMs, MISSED_MS_MAX);
  }

  return {
    matchSoon,
    async match() {
      const failed: unknown[] = [];
      const missedNow = new Set<string>();
      try {
        while (waiting.size > 0 && !isStopping()) {
          const ids = [...waiting].slice(0, TENANTS_AT_ONCE);
          for (const id of ids) waiting.delete(id);
          const terms = {
            match: matchesEndpoint,
            claimsMax: lane.room,
            leaseMs: settings.leaseMs,
            busy: lane.busy,
          };
          const {
            claims,
            behind,
            missed,
            failures,
            isLeftDue: isDue,
          } = await pace(
            () => store.matchEvents(ids, terms),
            (matched) => ({ surplus: surplusOf(ids), waitedMs: oldestMs(matched.claims) }),
          );
          failed.push(...failures);
          lane.take(claims);
          for (const id of behind) waiting.add(id);
          for (const id of missed) missedNow.add(id);
          if (isDue) deps.onDue();
        }
      } finally {
        matchMissed(missedNow);
      }
      if (failed.length > 0) throw new AggregateError(failed, `${failed.length} tenants are not matched`);
    },
    findBehind: createBehindLooks({ store, onBehind: matchSoon, isStopping }),
    async claim() {
      for (let looks = 0; looks < LOOKS_MAX && !isStopping(); looks++) {
        if (lane.room === 0) {
          isLeftDue = true;
          return;
        }
        const ask = {
          after: cursor,
          endpointsMax: ENDPOINTS_AT_ONCE,
          claimsMax: lane.room,
          busy: lane.busy,
          leaseMs: settings.leaseMs,
        };
        const { claims, next } = await pace(
          () => store.claimDeliveries(ask),
          (claimed) => ({
            surplus: surplusOf(claimed.claims.map(({ endpoint }) => endpoint.tenantId)),
            waitedMs: oldestMs(claimed.claims),
          }),
        );
        lane.take(claims);
        // What an endpoint has left is claimed when a present claim of it is done with.
        const mayBeLeft = claims.length > 0 || ask.busy.length > 0;
        isLeftDue = cursor === null ? mayBeLeft : isLeftDue || mayBeLeft;
        cursor = next;
        if (cursor === null) return;
      }
    },
    callTested: tests.call,
    endpointChanged,
    async findChanged() {
      const called = lane.endpoints;
      if (called.length === 0) return;
      // A secret that has made way for another one is not taken for it: a claim brings its own ciphertext along.
      for (const id of await store.changedEndpoints(called)) endpointChanged(id, 'settings');
    },
    forgetStale: secrets.forgetStale,
    async stop() {
      stopped.abort();
      await Promise.all([lane.stop(), tests.drain()]);
    },
    abandon: () => aborted.abort(),
    inFlight: () => lane.inFlight,
  };
}

/** How long the event that waited longest had waited when it was claimed; what has failed before waits as it should. */
function oldestMs(claims: Awaited<ReturnType<WebhookStore['claimDeliveries']>>['claims']): number {
  const times = claims.flatMap(({ attempts, events }) =>
    attempts > 0 || events[0] === undefined ? [] : [events[0].event.at.getTime()],
  );
  return times.length === 0 ? 0 : Math.max(0, Date.now() - Math.min(...times));
}
