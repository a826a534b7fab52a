import { decideHealth, type EndpointCall } from '#core/domain/webhooks/endpoint-health.ts';
import type { EndpointHealth } from '#core/domain/webhooks/endpoint-state.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';

/** Its time is that of the decision. */
export type EndedCall = Omit<EndpointCall, 'at'>;

export type EndpointWatchDeps = {
  readonly store: Pick<WebhookStore, 'changeEndpoint'>;
  /**
   * Called when the results of calls were stored.
   * @param failures of the endpoint since its last success, if it is active and calls need not wait; else undefined, as also when it
   * was deleted or changed meanwhile. Called too for a call that was ignored because the endpoint has changed since.
   */
  readonly onStored: (endpoint: WebhookEndpoint, failures: number | undefined) => void;
  readonly onMoved: (endpoint: WebhookEndpoint, health: EndpointHealth) => void;
  readonly onFailed: (error: unknown) => void;
  readonly random: () => number;
};

export type EndpointWatch = {
  /** Notes the result of a call. A success of a healthy endpoint costs nothing. */
  note(endpoint: WebhookEndpoint, call: EndedCall): void;
  /** Forgets an endpoint without claims in this process: the next claim brings its stored health. A write under way continues. */
  forget(endpointId: string): void;
  /** Waits until all results are stored. */
  drain(): Promise<void>;
  /** Number of endpoints that are remembered. */
  readonly size: number;
};

type Watched = {
  endpoint: WebhookEndpoint;
  calls: EndedCall[];
  storing: Promise<void> | undefined;
  /** Whether this process has no more claims of the endpoint. */
  isLeft: boolean;
};

/**
 * Creates the watch, which stores changes of endpoints' health. Calls that end while a change is being stored are decided about
 * together.
 */
export function createEndpointWatch(deps: EndpointWatchDeps): EndpointWatch {
  /**
   * Endpoints with a failed call and no success since, as far as this process knows. Their claims may have been made before the
   * failure and therefore show a healthy endpoint.
   */
  const watched = new Map<string, Watched>();

  async function store(of: Watched): Promise<void> {
    const { id } = of.endpoint;
    let isFailing = false;
    try {
      while (of.calls.length > 0) {
        const { endpoint, calls } = of;
        of.calls = [];
        let before: EndpointHealth | undefined;
        let decidedAt = 0;
        const health = await deps.store.changeEndpoint(endpoint.id, endpoint.version, (now, at) => {
          before = now;
          decidedAt = at;
          const after = calls.reduce((last, call) => decideHealth(last, { ...call, at }, deps.random()), now);
          return after === now ? undefined : after;
        });
        if (health !== undefined && before !== undefined && health.status !== before.status)
          deps.onMoved(endpoint, health);
        isFailing = health !== undefined && health.failures > 0;
        const mayCall = health?.status === 'active' && (health.callAt?.getTime() ?? 0) <= decidedAt;
        deps.onStored(endpoint, mayCall ? health.failures : undefined);
      }
    } catch (error) {
      isFailing = false;
      deps.onFailed(error);
      deps.onStored(of.endpoint, undefined);
    } finally {
      // Cleared in the same tick, so that a call that ends right afterwards starts a new write.
      of.storing = undefined;
      if (of.isLeft || !isFailing) watched.delete(id);
    }
  }

  return {
    note(endpoint, call) {
      const known = watched.get(endpoint.id);
      if (known === undefined && call.succeeded && endpoint.failures === 0 && endpoint.status === 'active')
        return;
      const of = known ?? { endpoint, calls: [], storing: undefined, isLeft: false };
      // The endpoint was changed while these calls were under way: what an old address answered says nothing about the new one.
      if (endpoint.version < of.endpoint.version) {
        // The caller may wait for this result; a write under way ends its wait as well.
        if (of.storing === undefined) deps.onStored(of.endpoint, undefined);
        return;
      }
      if (endpoint.version > of.endpoint.version) of.calls = [];
      watched.set(endpoint.id, of);
      of.endpoint = endpoint;
      of.isLeft = false;
      of.calls.push(call);
      of.storing ??= store(of);
    },
    forget(endpointId) {
      const of = watched.get(endpointId);
      if (of === undefined) return;
      of.isLeft = true;
      if (of.storing === undefined) watched.delete(endpointId);
    },
    async drain() {
      for (const { storing } of watched.values()) await storing;
    },
    get size() {
      return watched.size;
    },
  };
}
