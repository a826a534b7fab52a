import { monotonicMs } from '#core/domain/clock.ts';
import type { KubeClient } from '../kube/kube-client.ts';
import { isKubeError, KubeError, unanswered } from '../kube/kube-error.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import { backoffMs, pause } from '#core/platform/process/pause.ts';
import { listAll } from './list-all.ts';
import { createResourceCache, type CacheWriter, type IndexOf, type ResourceCache } from './resource-cache.ts';
import { slimObject } from './slim-object.ts';

/** Keeps a cache in sync with the API server. */
export type Reflector<T extends KubeObject = KubeObject> = {
  readonly cache: ResourceCache<T>;
  /** Lists and watches until the signal aborts, and only then resolves. Call it once. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /**
   * For how long the server has not answered at all, not even with a refusal, in milliseconds; of several namespaces, the longest
   * of these times. Longer than a few minutes: something hangs.
   */
  readonly silentMs: () => number;
  /** Whether every namespace was listed once: in one that was always refused there may be objects that are not known. */
  readonly isWhole: () => boolean;
};

/** The metrics of a reflector. */
export type ReflectorMetrics = {
  readonly watchRestarted: (kind: string, reason: 'ended' | 'expired' | 'stalled' | 'error') => void;
  /** @param epochSeconds when the server last sent objects, a bookmark or a regular end; of several namespaces, the oldest. */
  readonly watchContact: (kind: string, epochSeconds: number) => void;
  readonly relisted: (kind: string) => void;
};

export type ReflectorOptions<T extends KubeObject> = {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly resource: KubeResource;
  /** Empty: all namespaces. Ignored for kinds without namespaces. */
  readonly namespaces?: readonly string[];
  readonly indexes?: Readonly<Record<string, IndexOf<T>>>;
  /** Names of the annotations to keep in the cache. Default: none. */
  readonly annotations?: readonly string[];
  readonly log: Logger;
  readonly metrics?: ReflectorMetrics;
  /** Objects per page, fewer where they are large. Default 500. */
  readonly pageSize?: number;
  /**
   * A watch that is silent for this time is restarted, in milliseconds. Bookmarks arrive about every minute. Default
   * 120,000.
   */
  readonly silenceMsMax?: number;
};

const BACK_OFF = { minMs: 800, maxMs: 30_000 };
/** A watch that lasted this long was healthy, even if nothing happened. */
const GOOD_WATCH_MS = 10_000;

export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { resource, metrics, log } = options;
  const kind = resource.kind;
  const writer = createResourceCache<T>({
    kind,
    log,
    ...(options.indexes === undefined ? {} : { indexes: options.indexes }),
  });
  const namespaces =
    resource.namespaced && options.namespaces !== undefined && options.namespaces.length > 0
      ? [...new Set(options.namespaces)]
      : [undefined];
  const startedAt = { epoch: Date.now(), monotonic: monotonicMs() };
  const contacts = new Map(namespaces.map((namespace) => [namespace, startedAt.epoch]));
  const answers = new Map(namespaces.map((namespace) => [namespace, startedAt.monotonic]));
  const unlisted = new Set(namespaces);
  /** The rights in a namespace end with it. That holds up neither the other namespaces nor the process. */
  const refused = new Set<string | undefined>();
  const syncIfSeen = (): void => {
    const isAnyListed = unlisted.size < namespaces.length;
    if (isAnyListed && [...unlisted].every((one) => refused.has(one))) writer.markSynced();
  };

  const slim = (object: T): T => slimObject(object, options.annotations ?? []);
  const reflect = (namespace: string | undefined, signal: AbortSignal): Promise<void> =>
    keepEqual({
      ...options,
      namespace,
      signal,
      writer,
      slim,
      onContact() {
        contacts.set(namespace, Date.now());
        answers.set(namespace, monotonicMs());
        metrics?.watchContact(kind, oldestOf(contacts) / 1_000);
      },
      onListed() {
        if (!unlisted.delete(namespace)) metrics?.relisted(kind);
        syncIfSeen();
      },
      onRefused() {
        answers.set(namespace, monotonicMs());
        refused.add(namespace);
        syncIfSeen();
      },
    });

  return {
    cache: writer.cache,
    silentMs: () => monotonicMs() - oldestOf(answers),
    isWhole: () => unlisted.size === 0,
    run: async (signal) => {
      await Promise.all(namespaces.map((namespace) => reflect(namespace, signal)));
    },
  };
}

function oldestOf(times: ReadonlyMap<unknown, number>): number {
  return Math.min(...times.values());
}

type Scope<T extends KubeObject> = ReflectorOptions<T> & {
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
  readonly writer: CacheWriter<T>;
  /** Returns what the cache keeps of an object. */
  readonly slim: (object: T) => T;
  readonly onContact: () => void;
  readonly onListed: () => void;
  /** Called when the server has answered that we may not list or watch here. */
  readonly onRefused: () => void;
};

/** The result of one list or one watch. */
type Turn = {
  /** The version from which the next watch starts; undefined: a new list is needed. */
  readonly version: string | undefined;
  /** The next turn starts without a pause. */
  readonly goesOn: boolean;
  /** The server is healthy: a watch delivered an event or lasted. */
  readonly isHealthy: boolean;
  readonly error?: unknown;
};

/** Repeats turns: list, watch, watch again from where it ended, and list again when that is no longer possible. */
async function keepEqual<T extends KubeObject>(scope: Scope<T>): Promise<void> {
  const { signal, resource, namespace } = scope;
  const log = scope.log.child({ kind: resource.kind, ...(namespace === undefined ? {} : { namespace }) });
  let version: string | undefined;
  let failures = 0;
  while (!signal.aborted) {
    const turn: Turn = version === undefined ? await listTurn(scope) : await watchTurn(scope, version);
    if (signal.aborted) return;
    version = turn.version;
    if (isKubeError(turn.error, 403)) scope.onRefused();
    if (turn.isHealthy) failures = 0;
    if (turn.goesOn) continue;
    failures += 1;
    const delayMs = Math.round(backOffMs(failures, turn.error));
    log.warn({ err: turn.error, failures, delayMs }, 'Lost touch with the API server');
    await pause(delayMs, signal);
  }
}

async function listTurn<T extends KubeObject>(scope: Scope<T>): Promise<Turn> {
  const { writer, namespace, pageSize = 500, onContact } = scope;
  try {
    const { items, version } = await listAll({ ...scope, pageSize, onPage: onContact });
    writer.replace(items, namespace);
    scope.onListed();
    // A successful list does not reset the backoff: otherwise a server that always refuses the watch would cause a busy
    // loop.
    return { version, goesOn: true, isHealthy: false };
  } catch (error) {
    return { version: undefined, goesOn: false, isHealthy: false, error };
  }
}

async function watchTurn<T extends KubeObject>(scope: Scope<T>, from: string): Promise<Turn> {
  const { client, resource, namespace, signal, writer, slim, metrics, silenceMsMax = 120_000 } = scope;
  const startedAt = performance.now();
  using silence = new Deadline(silenceMsMax, {
    parent: signal,
    reason: () => unanswered('Timeout', 'A watch said nothing for too long'),
  });
  let version = from;
  let hasEvents = false;
  let error: unknown;
  try {
    await client.watch<T>(resource, {
      signal: silence.signal,
      namespace,
      resourceVersion: from,
      onEvent(event) {
        // Events after the abort are ignored: the next watch delivers them again.
        if (silence.signal.aborted) return;
        hasEvents = true;
        silence.restart();
        version = event.type === 'BOOKMARK' ? event.resourceVersion : event.object.metadata.resourceVersion;
        if (event.type === 'DELETED') writer.remove(slim(event.object));
        else if (event.type !== 'BOOKMARK') writer.put(slim(event.object));
        scope.onContact();
      },
    });
    // A normal end is a sign of life too.
    scope.onContact();
  } catch (thrown) {
    error = thrown;
  }
  const isHealthy = hasEvents || performance.now() - startedAt >= GOOD_WATCH_MS;
  const isExpired = isKubeError(error, 410);
  if (!signal.aborted) {
    const reason =
      error === undefined ? 'ended' : isExpired ? 'expired' : silence.signal.aborted ? 'stalled' : 'error';
    metrics?.watchRestarted(resource.kind, reason);
  }
  // After a watch that ended immediately there is a pause before the next one.
  const goesOn = error === undefined && isHealthy;
  return { version: isExpired ? undefined : version, goesOn, isHealthy, error };
}

/** 0.8 s, then random up to a ceiling that doubles to 30 s; never sooner than the server asks. */
function backOffMs(failures: number, error?: unknown): number {
  const delay = backoffMs(failures, BACK_OFF);
  return error instanceof KubeError ? Math.max(delay, error.retryAfterMs ?? 0) : delay;
}
