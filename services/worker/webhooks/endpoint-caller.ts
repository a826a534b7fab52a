import {
  busyEndpoints,
  claimRoom,
  queryRoom,
  tenantRoom,
  tenantsWithTheirShare,
} from '#core/domain/webhooks/claim-room.ts';
import { batchWaitMs, type Wait } from '#core/domain/queue/rest-beside-sends.ts';
import { FAILURES_UNTIL_FAILING } from '#core/domain/webhooks/endpoint-health.ts';
import type { DeliveryClaim, WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import { callEndpoint, type Called, type CallEndpointDeps } from './call-endpoint.ts';
import { createCallTurns, type CallTurnsDeps } from './call-turns.ts';
import {
  claimedEndpoint,
  hasSameKeys,
  heldClaims,
  mayBeCalled,
  type ClaimedEndpoint,
} from './claimed-endpoint.ts';
import { readyEndpoint, type DeliveredEvent } from './deliver-event.ts';
import type { DeliveryRecorder } from './delivery-recorder.ts';
import { createEndpointRun, type Delivery } from './endpoint-run.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';
import type { EndpointWatch } from './endpoint-watch.ts';
import { createEndpointWaits } from './endpoint-waits.ts';
import { createSlotShares } from './slot-shares.ts';

export type EndpointCallerDeps = CallEndpointDeps &
  Pick<CallTurnsDeps<ClaimedEndpoint, Delivery>, 'isSending' | 'withSurplus' | 'use'> & {
    readonly secrets: Pick<EndpointSecrets, 'get'>;
    readonly recorder: DeliveryRecorder;
    readonly watch: EndpointWatch;
    /** Maximum number of concurrent calls in this process. */
    readonly inFlightMax: number;
    /** Total time of one call in milliseconds. */
    readonly deadlineMs: number;
    /** Called when a call has ended. */
    readonly onCalled: (of: Called) => void;
    /** Called when there is capacity for more claims. */
    readonly onRoom: () => void;
  };

/** What may be claimed now. */
export type ClaimCapacity = {
  /** Number of claims that one query may take: half of the room, so that tenants which the next query finds have room as well. */
  readonly claimsMax: number;
  /** Number of these that one tenant may take, so that the next tenants find room as well. */
  readonly tenantClaimsMax: number;
  /**
   * Ids of endpoints that must not be claimed from, because they have enough claims or must wait, and of tenants that have their
   * share of the claims.
   */
  readonly busy: readonly string[];
};

/** Calls endpoints for claimed deliveries, in slots of its own, so that no message waits for a delivery. */
export type EndpointCaller = {
  take(claims: readonly DeliveryClaim[]): void;
  capacity(): ClaimCapacity;
  /** Returns for how long these claims count as having waited, in milliseconds. */
  waitedMs(claims: readonly DeliveryClaim[]): number;
  /** Endpoints with claims under way, each as it was claimed last. */
  readonly endpoints: readonly WebhookEndpoint[];
  /**
   * Ends the wait for the stored health of an endpoint.
   * @param failures its consecutive failures; undefined: no call may be made now.
   */
  healthStored(endpoint: WebhookEndpoint, failures: number | undefined): void;
  /** Returns an endpoint's claimed events that are not under way, so that they are claimed again with the changed endpoint. */
  endpointChanged(endpointId: string): void;
  /** Begins no more calls, waits for those under way, and records them. */
  stop(): Promise<void>;
  readonly inFlight: number;
};

/** The waiting events should begin within this time, well before their leases end. */
const WAIT_MS = 20_000;
/** Weight of one call in the average duration. */
const CALL_WEIGHT = 1 / 64;
/** After a claim with fewer events, most endpoints have no others that are due. */
const FULL_CLAIM = 20;
/** Maximum number of concurrent calls to one endpoint. */
const CALLS_PER_ENDPOINT_MAX = 20;
/** How long an endpoint is not claimed from whose keys could not be loaded. */
const KEYS_AGAIN = { minMs: 1_000, maxMs: 30_000 };
/**
 * The same if a result could not be recorded. The events of that claim are called for again, so the waits bound how often an
 * endpoint gets them; about the length of a lease at first, before whose end they cannot be claimed.
 */
const UNRECORDED_AGAIN = { minMs: 60_000, maxMs: 3_600_000 };
/** Time reserved within the lease to record the end of a call. */
const RECORD_MS = 2_000;

export function createEndpointCaller(deps: EndpointCallerDeps): EndpointCaller {
  const entries = new Map<string, ClaimedEndpoint>();
  const turns = createCallTurns<ClaimedEndpoint, Delivery>({
    next: nextOf,
    begin,
    waitOf: (_, { open }) => waitOf(open.claim),
    hasSlot: () => slots.hasSlot,
    isSending: deps.isSending,
    withSurplus: deps.withSurplus,
    use: deps.use,
  });
  const slots = createSlotShares(deps.inFlightMax);
  /** Endpoints whose keys could not be loaded, and those of which a result could not be recorded. */
  const keyless = createEndpointWaits(KEYS_AGAIN);
  const unrecorded = createEndpointWaits(UNRECORDED_AGAIN);
  /** Average duration of a call. */
  let callMs = 0;
  let isStopping = false;
  let idle: (() => void) | undefined;

  function take(taken: readonly DeliveryClaim[]): void {
    for (const [id, some] of Map.groupBy(taken, ({ endpoint }) => endpoint.id)) {
      const [first] = some;
      if (first === undefined) continue;
      const entry = entries.get(id) ?? open(id, first.endpoint);
      if (!hasSameKeys(entry.run.endpoint, first.endpoint)) {
        entry.ready = undefined;
        // They were claimed with settings that are no longer in force.
        entry.run.giveBack();
      }
      entry.claims += some.length;
      // For an ordered endpoint the claims of one query form one sequence.
      entry.run.add(some.toSorted((a, b) => (a.events[0]?.seq ?? 0) - (b.events[0]?.seq ?? 0)));
      if (isStopping || !mayBeCalled(first)) entry.run.giveBack();
      if (entry.ready === undefined) void loadKeys(id, entry);
      turns.add(entry);
    }
  }

  function open(id: string, endpoint: WebhookEndpoint): ClaimedEndpoint {
    const run = createEndpointRun(endpoint, (completion) => {
      void deps.recorder.record(completion).then((isRecorded) => {
        if (isRecorded) unrecorded.forget(id);
        else unrecorded.failed(id);
        entry.claims--;
        closeIfOver(id, entry);
        deps.onRoom();
      });
    });
    const entry = claimedEndpoint(run);
    entries.set(id, entry);
    return entry;
  }

  function closeIfOver(id: string, entry: ClaimedEndpoint): void {
    if (!entry.run.isOver || entry.claims > 0 || entries.get(id) !== entry) return;
    forget(id, entry);
  }

  function forget(id: string, entry: ClaimedEndpoint): void {
    entries.delete(id);
    turns.remove(entry);
    deps.watch.forget(id);
    endIfIdle();
  }

  /**
   * Loads the endpoint's keys. While the keyring does not provide them the events wait in the database, where they take no room
   * from others, and no attempt is used up.
   */
  async function loadKeys(id: string, entry: ClaimedEndpoint): Promise<void> {
    if (entry.isLoading) return;
    entry.isLoading = true;
    // The loop ends once the entry is forgotten, as when the worker stops.
    while (entries.get(id) === entry) {
      const { endpoint } = entry.run;
      const keys = await deps.secrets.get(endpoint);
      if (keys === null) {
        keyless.failed(id);
        entry.run.giveBack();
        break;
      }
      if (!hasSameKeys(endpoint, entry.run.endpoint)) continue;
      keyless.forget(id);
      entry.ready = readyEndpoint(endpoint, keys);
      turns.add(entry);
      break;
    }
    entry.isLoading = false;
  }

  const mayCallBefore = (leaseEndsAt: number): boolean =>
    leaseEndsAt - performance.now() >= deps.deadlineMs + RECORD_MS;

  function nextOf(entry: ClaimedEndpoint): Delivery | 'over_share' | undefined {
    if (entry.ready === undefined || entry.isHeld) return undefined;
    if (entry.run.underWay >= CALLS_PER_ENDPOINT_MAX) return undefined;
    if (!slots.hasShare(entry.tenantId)) return 'over_share';
    const before = entry.run.waitingClaims;
    const delivery = entry.run.next();
    if (delivery === undefined) closeIfOver(entry.run.endpoint.id, entry);
    // Asks for the next claim now, so that it is there when the calls of this one have ended.
    else if (entry.run.waitingClaims < before && delivery.open.seqs.length >= FULL_CLAIM) deps.onRoom();
    return delivery;
  }

  function noteIfFull(entry: ClaimedEndpoint): void {
    if (entry.run.underWay >= CALLS_PER_ENDPOINT_MAX) entry.fullAt = deps.epochMs();
  }

  function begin(entry: ClaimedEndpoint, delivery: Delivery): void {
    noteIfFull(entry);
    slots.take(entry.tenantId);
    void call(entry, delivery).finally(() => {
      slots.free(entry.tenantId);
      turns.slotFreed();
      turns.add(entry);
      endIfIdle();
    });
  }

  async function call(entry: ClaimedEndpoint, delivery: Delivery): Promise<void> {
    const {
      claimed,
      open: { claim },
    } = delivery;
    const { ready } = entry;
    // After the lease another worker may call for the same event, so a call must end and be recorded within the lease.
    if (ready === undefined || !mayCallBefore(claim.leaseEndsAt)) {
      entry.run.end(delivery, undefined);
      return;
    }
    const { called, after, isMade } = await callEndpoint(ready, claimed, claim, deps);
    callMs += (called.delivered.durationMs - callMs) * CALL_WEIGHT;
    noteIfFull(entry);
    entry.run.end(delivery, after);
    deps.onCalled(called);
    if (isMade) noteHealth(entry, claim, called.delivered);
  }

  function noteHealth(
    entry: ClaimedEndpoint,
    { endpoint, isProbe, probeUntil }: Pick<DeliveryClaim, 'endpoint' | 'isProbe' | 'probeUntil'>,
    delivered: DeliveredEvent,
  ): void {
    // The endpoint was changed during the call: what an old address answered says nothing about the new one.
    if (endpoint.version < entry.run.endpoint.version) return;
    const { succeeded, response, retryAfterMs } = delivered;
    const status = response?.status ?? null;
    entry.failures = succeeded ? 0 : entry.failures + 1;
    const isOut = entry.failures >= FAILURES_UNTIL_FAILING || status === 410 || retryAfterMs !== undefined;
    if (!succeeded && isOut) entry.isHeld = true;
    deps.watch.note(endpoint, { succeeded, status, retryAfterMs, isProbe, probeUntil });
  }

  function waitOf({
    endpoint,
    waitsSince,
    isPaced,
  }: Pick<DeliveryClaim, 'endpoint' | 'waitsSince' | 'isPaced'>): Wait {
    const since = Math.max(waitsSince, entries.get(endpoint.id)?.fullAt ?? 0);
    return { ms: deps.epochMs() - since, isPaced };
  }

  function endIfIdle(): void {
    if (slots.inFlight === 0) idle?.();
  }

  return {
    take,
    capacity() {
      const held = [...entries.values()].map(heldClaims);
      const room = isStopping ? 0 : claimRoom(held);
      const eventsMax = (deps.inFlightMax * WAIT_MS) / callMs;
      return {
        claimsMax: queryRoom(room),
        tenantClaimsMax: tenantRoom(room, new Set(held.map(({ tenantId }) => tenantId)).size),
        busy: [
          ...busyEndpoints(held),
          ...keyless.waiting,
          ...unrecorded.waiting,
          ...tenantsWithTheirShare(held, room, eventsMax),
        ],
      };
    },
    waitedMs: (claims) => batchWaitMs(claims.map(waitOf)),
    get endpoints() {
      return [...entries.values()].map(({ run }) => run.endpoint);
    },
    healthStored(endpoint, failures) {
      const entry = entries.get(endpoint.id);
      if (entry === undefined) return;
      entry.isHeld = false;
      if (failures === undefined) entry.run.giveBack();
      else entry.failures = failures;
      turns.add(entry);
    },
    endpointChanged(endpointId) {
      keyless.forget(endpointId);
      const entry = entries.get(endpointId);
      if (entry === undefined) return;
      entry.run.giveBack();
      turns.add(entry);
    },
    async stop() {
      isStopping = true;
      for (const entry of entries.values()) entry.run.giveBack();
      if (slots.inFlight > 0) await new Promise<void>((resolve) => (idle = resolve));
      await deps.watch.drain();
      await deps.recorder.drain();
    },
    get inFlight() {
      return slots.inFlight;
    },
  };
}
