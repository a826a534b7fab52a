import { createTokenBucket } from './token-bucket.ts';
import { kubeObjects, type KubeObjects, type KubePlace } from './kube-api.ts';
import type { KubeApplyOptions, KubeCall, KubeClient, KubeDraft, KubeListOptions } from './kube-client.ts';
import { openKubeCredentials, type KubeCredentialsOptions } from './kube-credentials.ts';
import { isKubeError, notLeading } from './kube-error.ts';
import { connectionFault, exchange, noJson, type ExchangeOptions } from './kube-exchange.ts';
import {
  applyStatus,
  managed,
  patchFinalizers,
  typeOf,
  type RetriedCall,
  type Write,
} from './kube-guarded-writes.ts';
import type { KubeList, KubeObject, KubeRef, KubeResource } from './kube-object.ts';
import { answerDeadline, REPEATS, withRetries } from './kube-retry.ts';
import { readWatch } from './kube-watch.ts';

export type KubeOptions = KubeCredentialsOptions & {
  readonly userAgent: string;
  /** Called for every request with its HTTP status, or `<error>` when there was no answer. */
  readonly onRequest?: (request: { readonly code: string; readonly method: string }) => void;
};

const DEADLINE_MS = 30_000;
const ATTEMPT_MS = 10_000;
/** Timeout for the first byte of a watch; the server normally answers immediately. */
const WATCH_HEADERS_MS = 30_000;
const WATCH_SECONDS = 300;

type Act = (objects: KubeObjects) => Promise<unknown>;

/** Opens the client; connects on the first call. @throws Error when no credentials are configured. */
export function openKube({ userAgent, onRequest = () => undefined, ...options }: KubeOptions): KubeClient {
  const credentials = openKubeCredentials(options);
  const budget = createTokenBucket(REPEATS);

  const sendOnce = async (
    place: KubePlace,
    act: Act,
    how: Pick<ExchangeOptions, 'signal' | 'read'>,
  ): Promise<unknown> => {
    const connection = await credentials.connection();
    const { dispatcher } = connection;
    const objects = kubeObjects(place, connection, (request) => {
      request.setHeaderParam('User-Agent', userAgent);
      return exchange(request, { ...how, dispatcher, onRequest });
    });
    try {
      return await act(objects);
    } catch (error) {
      throw error instanceof SyntaxError ? noJson(error) : error;
    }
  };

  /** The token may have been rotated since it was read: a 401 is final only if a fresh token is refused too. */
  const send: typeof sendOnce = async (...request) => {
    for (let isReread = false; ; isReread = true) {
      try {
        return await sendOnce(...request);
      } catch (error) {
        if (!isKubeError(error, 401)) throw error;
        credentials.refused();
        if (isReread) throw error;
      }
    }
  };

  const retried = (
    options: RetriedCall,
    attempt: (signal: AbortSignal) => Promise<unknown>,
  ): Promise<unknown> =>
    withRetries(attempt, {
      signal: options.signal,
      deadlineMs: options.deadlineMs ?? DEADLINE_MS,
      attemptMs: options.attemptMs ?? ATTEMPT_MS,
      isRepeatable: options.isRepeatable,
      budget,
    });

  const read = (place: KubePlace, options: KubeCall, act: Act): Promise<unknown> =>
    retried({ ...options, isRepeatable: true }, (signal) => send(place, act, { signal }));

  const write: Write = (place, options, act) =>
    retried(options, async (signal) => {
      if (options.mayWrite?.() === false) throw notLeading();
      return send(place, act, { signal });
    });

  const client: KubeClient = {
    async list<T extends KubeObject>(resource: KubeResource, options: KubeListOptions) {
      const { namespace, limit } = options;
      const query = { limit, _continue: options.continue };
      return (await read({ resource, namespace }, options, (objects) => objects.list(query))) as KubeList<T>;
    },

    async watch(resource, { signal, namespace, resourceVersion, timeoutSeconds, onEvent }) {
      const query = {
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion,
        // Randomized, so that many watches that started together do not end together.
        timeoutSeconds: timeoutSeconds ?? Math.round(WATCH_SECONDS * (0.9 + 0.2 * Math.random())),
      };
      using limit = answerDeadline(WATCH_HEADERS_MS, signal);
      /** The body of this list is delivered event by event as it arrives; the library gets an empty body at the end. */
      const readEvents = async (chunks: AsyncIterable<Uint8Array>): Promise<string> => {
        limit.lift();
        // An error thrown by `onEvent` is not a connection error.
        let raised: { readonly error: unknown } | undefined;
        try {
          await readWatch(chunks, (event) => {
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
        return '{}';
      };
      await send({ resource, namespace }, (objects) => objects.list(query), {
        signal: limit.signal,
        read: readEvents,
      });
    },

    async get<T extends KubeObject>(resource: KubeResource, ref: KubeRef, options: KubeCall) {
      const { namespace, name } = ref;
      try {
        return (await read({ resource, namespace }, options, (objects) => objects.get(name))) as T;
      } catch (error) {
        if (isKubeError(error, 404)) return undefined;
        throw error;
      }
    },

    async create<T extends KubeObject>(resource: KubeResource, object: KubeDraft, options: KubeCall) {
      const { namespace } = object.metadata;
      const body = { ...typeOf(resource), ...object };
      return (await write({ resource, namespace }, { ...options, isRepeatable: false }, (objects) =>
        objects.create(body),
      )) as T;
    },

    async replace<T extends KubeObject>(resource: KubeResource, object: T, options: KubeCall) {
      const { namespace, name } = object.metadata;
      const body = { ...typeOf(resource), ...object };
      return (await write({ resource, namespace }, { ...options, isRepeatable: false }, (objects) =>
        objects.replace(name, body),
      )) as T;
    },

    async apply<T extends KubeObject>(
      resource: KubeResource,
      ref: KubeRef,
      fields: object,
      options: KubeApplyOptions,
    ) {
      const { namespace, name } = ref;
      const { metadata, ...rest } = fields as { readonly metadata?: object };
      const body = { ...typeOf(resource), ...rest, metadata: { ...metadata, ...ref } };
      return (await write({ resource, namespace }, { ...options, isRepeatable: true }, (objects) =>
        objects.apply(name, body, managed(options)),
      )) as T;
    },

    applyStatus: (resource, ref, status, options) =>
      applyStatus({ client, write, resource, ref, status, options }),

    patchFinalizers: (resource, object, change, options) =>
      patchFinalizers({ client, write, resource, object, change, options }),

    [Symbol.asyncDispose]: () => credentials[Symbol.asyncDispose](),
  };
  return client;
}
