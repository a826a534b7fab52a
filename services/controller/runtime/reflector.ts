import type { KubeObject } from '#core/platform/kube-object.ts';
import type { ResourceCache } from './resource-cache.ts';

/** Keeps a cache equal to the API server. */
export type Reflector<T extends KubeObject = KubeObject> = {
  readonly cache: ResourceCache<T>;
  /** Lists and watches until the signal; resolves then, and never before. */
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** When the server last said anything, in milliseconds since the epoch; of several namespaces the most silent one. */
  readonly lastContactAt: () => number;
};
