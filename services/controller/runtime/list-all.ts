import type { KubeClient } from '../kube/kube-client.ts';
import { KubeError } from '../kube/kube-error.ts';
import type { KubeList, KubeObject, KubeResource } from '../kube/kube-object.ts';

export type ListAllOptions<T extends KubeObject> = {
  readonly client: Pick<KubeClient, 'list'>;
  readonly resource: KubeResource;
  /** Absent: all namespaces. */
  readonly namespace: string | undefined;
  readonly signal: AbortSignal;
  /** Objects of a page whose objects have an ordinary size. */
  readonly pageSize: number;
  /** Returns what is kept of an object while the other pages are read. */
  readonly slim: (object: T) => T;
  /** Called for each page. */
  readonly onPage: () => void;
};

/**
 * Reads all objects, page by page. A page that is too large to be read is asked for again in smaller ones: whoever may write one
 * resource can give it more than a megabyte of labels, and must not keep all others from being read.
 * @returns the objects, and the version of the list.
 * @throws KubeError; 410 when the pages took too long, so that all must be read again.
 */
export async function listAll<T extends KubeObject>(
  options: ListAllOptions<T>,
): Promise<{ readonly items: readonly T[]; readonly version: string }> {
  const { client, resource, namespace, signal, pageSize, slim, onPage } = options;
  const items: T[] = [];
  let limit = pageSize;
  let next: string | undefined;
  for (;;) {
    let page: KubeList<T>;
    try {
      page = await client.list<T>(resource, {
        signal,
        namespace,
        limit,
        continue: next,
        // A page of a large list takes the server longer than a single object.
        attemptMs: 30_000,
        deadlineMs: 60_000,
      });
    } catch (error) {
      if (!isTooLarge(error) || limit === 1) throw error;
      limit = Math.ceil(limit / 4);
      continue;
    }
    onPage();
    for (const item of page.items) items.push(slim(item));
    next = page.metadata.continue === '' ? undefined : page.metadata.continue;
    if (next === undefined) return { items, version: page.metadata.resourceVersion };
    limit = Math.min(limit * 2, pageSize);
  }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof KubeError && error.reason === 'TooLarge';
}
