import type { KubeApplyOptions, KubeCall, KubeClient, KubeDraft, KubeListOptions } from './kube-client.ts';
import { applyStatus, APPLY, managed, patchFinalizers, typeOf } from './kube-guarded-writes.ts';
import { openKubeCredentials, type KubeCredentialsOptions } from './kube-credentials.ts';
import { isKubeError, notLeading } from './kube-error.ts';
import { connectionFault, exchange, type KubeAnswer, type KubeRequest } from './kube-exchange.ts';
import { pathOf, type KubeList, type KubeObject, type KubeRef, type KubeResource } from './kube-object.ts';
import { createRetryBudget, limited, withRetries } from './kube-retry.ts';
import { readWatch } from './kube-watch.ts';

export type KubeOptions = KubeCredentialsOptions & {
  readonly userAgent: string;
  /** Told of every request: its HTTP status, or `<error>` where no answer came. */
  readonly onRequest?: (request: { readonly code: string; readonly method: string }) => void;
};

const DEADLINE_MS = 30_000;
const ATTEMPT_MS = 10_000;
/** Until the first byte of a watch; the server answers at once. */
const WATCH_HEADERS_MS = 30_000;
const WATCH_SECONDS = 300;
/** Opens no connection before the first call. @throws Error where no credentials are configured. */
export function openKube({ userAgent, onRequest = () => undefined, ...options }: KubeOptions): KubeClient {
  const credentials = openKubeCredentials(options);
  const budget = createRetryBudget();

  const sendOnce = async (request: KubeRequest, signal: AbortSignal): Promise<KubeAnswer> =>
    exchange(request, { connection: await credentials.connection(), userAgent, signal, onRequest });

  /** A token may have been rotated since it was read: a refusal is believed when a new one is refused as well. */
  const send = async (request: KubeRequest, signal: AbortSignal): Promise<KubeAnswer> => {
    for (let isReread = false; ; isReread = true) {
      try {
        return await sendOnce(request, signal);
      } catch (error) {
        if (!isKubeError(error, 401)) throw error;
        credentials.refused();
        if (isReread) throw error;
      }
    }
  };

  const call = (request: KubeRequest, options: KubeCall, isRepeatable: boolean): Promise<unknown> =>
    withRetries(
      async (signal) => {
        if (request.method !== 'GET' && options.mayWrite?.() === false) throw notLeading();
        return (await send(request, signal)).json();
      },
      {
        signal: options.signal,
        deadlineMs: options.deadlineMs ?? DEADLINE_MS,
        attemptMs: options.attemptMs ?? ATTEMPT_MS,
        isRepeatable,
        budget,
      },
    );

  const client: KubeClient = {
    async list<T extends KubeObject>(resource: KubeResource, options: KubeListOptions) {
      const query = {
        limit: options.limit,
        continue: options.continue,
        resourceVersion: options.resourceVersion,
      };
      const path = pathOf(resource, { namespace: options.namespace });
      return (await call({ method: 'GET', path, query }, options, true)) as KubeList<T>;
    },

    async watch(resource, { signal, namespace, resourceVersion, timeoutSeconds, onEvent }) {
      const query = {
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion,
        // Spread, so that many watches that began together do not end together.
        timeoutSeconds: timeoutSeconds ?? Math.round(WATCH_SECONDS * (0.9 + 0.2 * Math.random())),
      };
      using limit = limited(signal, WATCH_HEADERS_MS);
      const answer = await send(
        { method: 'GET', path: pathOf(resource, { namespace }), query },
        limit.signal,
      );
      limit.lift();
      // An error of `onEvent` is not one of the connection.
      let raised: { readonly error: unknown } | undefined;
      try {
        await readWatch(answer.chunks, (event) => {
          try {
            onEvent(event as Parameters<typeof onEvent>[0]);
          } catch (error) {
            raised = { error };
            throw error;
          }
        });
      } catch (error) {
        throw raised === undefined ? connectionFault(error, limit.signal) : raised.error;
      }
    },

    async get<T extends KubeObject>(resource: KubeResource, ref: KubeRef, options: KubeCall) {
      try {
        return (await call({ method: 'GET', path: pathOf(resource, ref) }, options, true)) as T;
      } catch (error) {
        if (isKubeError(error, 404)) return undefined;
        throw error;
      }
    },

    async create<T extends KubeObject>(resource: KubeResource, object: KubeDraft, options: KubeCall) {
      const { namespace } = object.metadata;
      const request = {
        method: 'POST',
        path: pathOf(resource, { namespace }),
        query: { fieldValidation: 'Strict' },
        body: { ...typeOf(resource), ...object },
      } as const;
      return (await call(request, options, false)) as T;
    },

    async replace<T extends KubeObject>(resource: KubeResource, object: T, options: KubeCall) {
      const request = {
        method: 'PUT',
        path: pathOf(resource, object.metadata),
        query: { fieldValidation: 'Strict' },
        body: { ...typeOf(resource), ...object },
      } as const;
      return (await call(request, options, false)) as T;
    },

    async apply<T extends KubeObject>(
      resource: KubeResource,
      ref: KubeRef,
      fields: object,
      options: KubeApplyOptions,
    ) {
      const { metadata, ...rest } = fields as { readonly metadata?: object };
      const request = {
        method: 'PATCH',
        path: pathOf(resource, ref),
        query: { ...managed(options), fieldValidation: 'Strict' },
        contentType: APPLY,
        body: { ...typeOf(resource), ...rest, metadata: { ...metadata, ...ref } },
      } as const;
      return (await call(request, options, true)) as T;
    },

    applyStatus: (resource, ref, status, options) =>
      applyStatus({ client, call, resource, ref, status, options }),

    patchFinalizers: (resource, object, change, options) =>
      patchFinalizers({ client, call, resource, object, change, options }),

    async delete(resource, ref, options) {
      const { uid } = ref;
      const request = {
        method: 'DELETE',
        path: pathOf(resource, ref),
        body: {
          kind: 'DeleteOptions',
          apiVersion: 'v1',
          ...(uid === undefined ? {} : { preconditions: { uid } }),
        },
      } as const;
      try {
        // Deleting one certain object twice deletes it once; a name alone may be another's by then.
        await call(request, options, uid !== undefined);
        return true;
      } catch (error) {
        if (isKubeError(error, 404) || (uid !== undefined && isKubeError(error, 409))) return false;
        throw error;
      }
    },

    [Symbol.asyncDispose]: () => credentials[Symbol.asyncDispose](),
  };
  return client;
}
