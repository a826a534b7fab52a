import type { KubeList, KubeObject, KubeRef, KubeResource, KubeWatchEvent } from './kube-object.ts';

export type KubeCall = {
  /** Aborts the call immediately with a `KubeError` of reason `Aborted`. */
  readonly signal: AbortSignal;
  /** Deadline of the whole call including retries, in milliseconds. Default 30,000. */
  readonly deadlineMs?: number;
  /** Timeout of one attempt. Default 10,000. */
  readonly attemptMs?: number;
  /**
   * Called right before each attempt of a write, including retries after a pause or after a conflict. False ends the call
   * with a `KubeError` of reason `NotLeading`.
   */
  readonly mayWrite?: () => boolean;
};

export type KubeListOptions = KubeCall & {
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Items per page. Absent: all at once. */
  readonly limit?: number;
  /** Token of the previous page; the server answers 410 when it has expired. */
  readonly continue?: string | undefined;
};

export type KubeWatchOptions<T> = {
  readonly signal: AbortSignal;
  readonly namespace?: string | undefined;
  /** The watch reports the changes after this version. */
  readonly resourceVersion: string;
  /** When the server should end the watch. Default 300 ± 10 %. */
  readonly timeoutSeconds?: number;
  /** Called in order. An error that it throws ends the watch. */
  readonly onEvent: (event: KubeWatchEvent<T>) => void;
};

export type KubeApplyOptions = KubeCall & {
  /**
   * Owner of the applied fields, also of those that other managers owned; must stay the same over releases, or old fields are left
   * behind.
   */
  readonly fieldManager: string;
};

/**
 * Calls the API server with raw JSON. Every failure is a `KubeError`.
 *
 * Status 429, 5xx and broken connections are retried within the deadline, no sooner than `Retry-After` asks, if the call is
 * safe to repeat: reads and server-side applies always; other writes only if the server says that it did not execute them
 * (429, or a 5xx with Retry-After).
 */
export type KubeClient = AsyncDisposable & {
  readonly list: <T extends KubeObject>(
    resource: KubeResource,
    options: KubeListOptions,
  ) => Promise<KubeList<T>>;
  /**
   * Resolves when the server ended the watch normally. Requests bookmarks.
   * @throws KubeError 410 when the version is too old, also if it expires during the watch.
   */
  readonly watch: <T extends KubeObject>(
    resource: KubeResource,
    options: KubeWatchOptions<T>,
  ) => Promise<void>;
  readonly get: <T extends KubeObject>(
    resource: KubeResource,
    ref: KubeRef,
    call: KubeCall,
  ) => Promise<T | undefined>;
  /** @throws KubeError 409 `AlreadyExists`. */
  readonly create: <T extends KubeObject>(
    resource: KubeResource,
    object: KubeDraft,
    call: KubeCall,
  ) => Promise<T>;
  /** Replaces the whole object if it still has the given `resourceVersion`. @throws KubeError 409 `Conflict`. */
  readonly replace: <T extends KubeObject>(resource: KubeResource, object: T, call: KubeCall) => Promise<T>;
  /**
   * Applies the given fields with server-side apply; creates the object if it does not exist. Fills in `apiVersion` and
   * `kind`.
   */
  readonly apply: <T extends KubeObject>(
    resource: KubeResource,
    ref: KubeRef,
    fields: object,
    options: KubeApplyOptions,
  ) => Promise<T>;
  /**
   * Applies only the status with server-side apply. With `uid`, a later object of the same name is not changed; passing the
   * `resourceVersion` at which that uid was seen saves a read, and it need not be the latest.
   * @throws KubeError 404 when the object is gone, 409 `Replaced` when its `uid` differs, 409 `Conflict` when it changed before
   * each of several attempts.
   */
  readonly applyStatus: <T extends KubeObject>(
    resource: KubeResource,
    ref: KubeRef & { readonly uid?: string; readonly resourceVersion?: string },
    status: object,
    options: KubeApplyOptions,
  ) => Promise<T>;
  /**
   * Adds and removes finalizers without changing others, even if those change concurrently. Sends nothing that the given
   * object already has.
   * @returns the current object; undefined when it is gone or another object (by `uid`) has its name.
   */
  readonly patchFinalizers: <T extends KubeObject>(
    resource: KubeResource,
    object: T,
    change: { readonly add?: string; readonly remove?: string },
    call: KubeCall,
  ) => Promise<T | undefined>;
};

/** The input of `create`: the server fills in the rest. */
export type KubeDraft = {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
};
