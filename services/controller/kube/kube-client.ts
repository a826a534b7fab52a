import type { KubeList, KubeObject, KubeRef, KubeResource, KubeWatchEvent } from './kube-object.ts';

export type KubeCall = {
  /** Ends the call at once, with a `KubeError` of reason `Aborted`. */
  readonly signal: AbortSignal;
  /** The whole call with its retries, in milliseconds. Default 30,000. */
  readonly deadlineMs?: number;
  /** One try within it. Default 10,000. */
  readonly attemptMs?: number;
  /**
   * Asked right before each try of a write, also one that is made again after a pause or on top of someone else's. False
   * ends the call with a `KubeError` of reason `NotLeading`.
   */
  readonly mayWrite?: () => boolean;
};

export type KubeListOptions = KubeCall & {
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Items of a page. Absent: all at once. */
  readonly limit?: number;
  /** From the page before; the server answers 410 when it is too old. */
  readonly continue?: string | undefined;
  /** Absent: the newest state. */
  readonly resourceVersion?: string;
};

export type KubeWatchOptions<T> = {
  readonly signal: AbortSignal;
  readonly namespace?: string | undefined;
  /** What happened after this version is told. */
  readonly resourceVersion: string;
  /** When the server is to end the watch. Default 300 ± 10 %. */
  readonly timeoutSeconds?: number;
  /** Called in order. What it throws ends the watch. */
  readonly onEvent: (event: KubeWatchEvent<T>) => void;
};

export type KubeApplyOptions = KubeCall & {
  /** Owns the fields that are sent; stable over releases, or fields are left behind. */
  readonly fieldManager: string;
  /** Takes fields over from other managers. Default true. */
  readonly force?: boolean;
};

/**
 * Calls to the API server over raw JSON. Whatever fails, fails as a `KubeError`.
 *
 * Answers 429 and 5xx and broken connections are tried again within the deadline, no sooner than `Retry-After` asks,
 * where the call may be repeated: reads and server-side applies always; other writes only where the server says that it
 * did not do them (429, or a Retry-After with a 5xx).
 */
export type KubeClient = AsyncDisposable & {
  readonly list: <T extends KubeObject>(
    resource: KubeResource,
    options: KubeListOptions,
  ) => Promise<KubeList<T>>;
  /**
   * Resolves when the server ended the watch in good order. Bookmarks are asked for.
   * @throws KubeError 410 for a version that is too old, also when it grows too old on the way.
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
  /** Writes the whole object if it still has the given `resourceVersion`. @throws KubeError 409 `Conflict`. */
  readonly replace: <T extends KubeObject>(resource: KubeResource, object: T, call: KubeCall) => Promise<T>;
  /** Server-side apply of the given fields; creates the object where it is absent. `apiVersion` and `kind` are filled in. */
  readonly apply: <T extends KubeObject>(
    resource: KubeResource,
    ref: KubeRef,
    fields: object,
    options: KubeApplyOptions,
  ) => Promise<T>;
  /**
   * Server-side apply of the status alone. With `uid`, an object that was made anew under the name is left alone; the
   * `resourceVersion` at which that uid was seen saves a read, and need not be the newest.
   * @throws KubeError 404 where it is gone, 409 where its `uid` is another.
   */
  readonly applyStatus: <T extends KubeObject>(
    resource: KubeResource,
    ref: KubeRef & { readonly uid?: string; readonly resourceVersion?: string },
    status: object,
    options: KubeApplyOptions,
  ) => Promise<T>;
  /**
   * Adds and removes finalizers and leaves all others as they are, whoever changes them at the same time. What the given
   * object shows as done already is not sent.
   * @returns the object as it is now; undefined where it is gone or another one (by `uid`) has its name.
   */
  readonly patchFinalizers: <T extends KubeObject>(
    resource: KubeResource,
    object: T,
    change: { readonly add?: string; readonly remove?: string },
    call: KubeCall,
  ) => Promise<T | undefined>;
  /** Deletes the object, with `uid` only that very one. @returns false where there was none (or another one). */
  readonly delete: (
    resource: KubeResource,
    ref: KubeRef & { readonly uid?: string },
    call: KubeCall,
  ) => Promise<boolean>;
};

/** What `create` is given: the server fills in the rest. */
export type KubeDraft = {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [field: string]: unknown;
};
