import { decideHealth, type EndpointCall } from '#core/domain/endpoint-health.ts';
import type { EndpointHealth } from '#core/domain/endpoint-state.ts';
import type { WebhookEndpoint, WebhookStore } from '#core/store/webhook-deliveries.ts';

export type EndpointWatchDeps = {
  readonly store: Pick<WebhookStore, 'changeEndpoint'>;
  /** What calls came to was stored. `health` undefined: the endpoint is gone, or is another one by now. */
  readonly onKnown: (endpoint: WebhookEndpoint, health: EndpointHealth | undefined) => void;
  readonly onMoved: (endpoint: WebhookEndpoint, health: EndpointHealth) => void;
  readonly onFailed: (error: unknown) => void;
  readonly random: () => number;
};

export type EndpointWatch = {
  /** Takes note of a call. What was fine and still is costs nothing. */
  note(endpoint: WebhookEndpoint, call: EndpointCall): void;
  /** No claim of it is left here: a later one brings along what is stored. What is being stored is stored all the same. */
  forget(endpointId: string): void;
  /** Waits until all is stored. */
  drain(): Promise<void>;
  /** Endpoints that it remembers. */
  readonly size: number;
};

type Watched = {
  endpoint: WebhookEndpoint;
  calls: EndpointCall[];
  storing: Promise<void> | undefined;
  /** It is called no more, as far as this process knows. */
  isLeft: boolean;
};

/** Stores how endpoints do, where that changes: calls that end while one change is stored are decided about together. */
export function createEndpointWatch(deps: EndpointWatchDeps): EndpointWatch {
  /**
   * Endpoints of which a call has failed and none has succeeded since, as far as this process knows: their claims may have been
   * made before that, and say that all is well.
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
        const health = await deps.store.changeEndpoint(endpoint.id, endpoint.version, (now) => {
          before = now;
          const after = calls.reduce((last, call) => decideHealth(last, call, deps.random()), now);
          return after === now ? undefined : after;
        });
        if (health !== undefined && before !== undefined && health.status !== before.status)
          deps.onMoved(endpoint, health);
        isFailing = health !== undefined && health.failures > 0;
        deps.onKnown(endpoint, health);
      }
    } catch (error) {
      isFailing = false;
      deps.onFailed(error);
      deps.onKnown(of.endpoint, undefined);
    } finally {
      // At once: a call that ends in the next moment begins to be stored anew.
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
