import { randomUUID } from 'node:crypto';
import type { PingEnvelope } from '#core/domain/webhooks/event-schemas.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';
import { deliverEvent, readyEndpoint, type DeliverEventDeps } from './deliver-event.ts';
import type { EndpointSecrets } from './endpoint-secrets.ts';

export type EndpointTestsDeps = DeliverEventDeps & {
  readonly onFailed: (error: unknown) => void;
  readonly store: Pick<WebhookStore, 'takeEndpointTests' | 'storeEndpointTest'>;
  readonly secrets: Pick<EndpointSecrets, 'get'>;
};

/** The result that is shown to the person who tests an endpoint. */
export type EndpointTestResult = {
  readonly succeeded: boolean;
  readonly request: { readonly headers: Readonly<Record<string, string>>; readonly body: string };
  readonly response: {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string | null;
  } | null;
  readonly error: string | null;
  readonly durationMs: number;
};

export type EndpointTests = {
  /** Begins the requested test calls, as far as there is capacity. Does not wait for their ends. */
  readonly call: () => Promise<void>;
  /** Resolves when the test calls under way have ended and are stored. */
  readonly drain: () => Promise<void>;
};

/** Maximum number of concurrent test calls in this process; the store hands out at most three of one tenant. */
const TESTS_MAX = 50;
/** Maximum number of headers kept of an answer. */
const HEADERS_MAX = 50;

/** Creates the runner of requested test calls. They do not affect the endpoint's health. */
export function createEndpointTests(deps: EndpointTestsDeps): EndpointTests {
  const underWay = new Set<Promise<void>>();

  async function callOne(id: string, endpoint: WebhookEndpoint): Promise<void> {
    try {
      await deps.store.storeEndpointTest(id, await tryOut(endpoint, deps));
    } catch (error) {
      deps.onFailed(error);
    }
  }

  return {
    async call() {
      const room = TESTS_MAX - underWay.size;
      if (room === 0) return;
      for (const { id, endpoint } of await deps.store.takeEndpointTests(room)) {
        const call: Promise<void> = callOne(id, endpoint).finally(() => underWay.delete(call));
        underWay.add(call);
      }
    },
    async drain() {
      await Promise.all(underWay);
    },
  };
}

async function tryOut(endpoint: WebhookEndpoint, deps: EndpointTestsDeps): Promise<EndpointTestResult> {
  const event: PingEnvelope = {
    id: randomUUID(),
    type: 'test.ping',
    timestamp: new Date(deps.epochMs()).toISOString(),
    data: { endpointId: endpoint.id },
  };
  const body = JSON.stringify(event);
  const keys = await deps.secrets.get(endpoint);
  if (keys === null) {
    const error = 'secrets_unavailable';
    return { succeeded: false, request: { headers: {}, body }, response: null, error, durationMs: 0 };
  }
  const ready = readyEndpoint(endpoint, keys);
  const { sent, response, answer, error, succeeded, durationMs } = await deliverEvent(
    ready,
    event.id,
    Buffer.from(body),
    deps,
  );
  const shown = ([name, value]: readonly [string, string]) => [name, ready.redact(value)] as const;
  return {
    succeeded,
    request: { headers: Object.fromEntries(Object.entries(sent).map(shown)), body },
    response: response && {
      status: response.status,
      headers: Object.fromEntries(Object.entries(response.headers).slice(0, HEADERS_MAX).map(shown)),
      body: answer,
    },
    error,
    durationMs,
  };
}
