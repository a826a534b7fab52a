import { contentApart } from '#core/domain/message/content.ts';
import type { ClaimedMessage } from '#core/store/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';

export type LoadedContent =
  | { readonly kind: 'ready'; readonly content: unknown; readonly release: () => void }
  /** Retry later: the budget is used up, or the database does not answer. */
  | { readonly kind: 'unavailable' }
  /** The content was deleted after its message had been claimed. */
  | { readonly kind: 'gone' };

export type Contents = {
  /** Loads a message's content. The content counts against the budget until `release` is called. */
  readonly load: (message: ClaimedMessage) => Promise<LoadedContent>;
};

export type ContentsOptions = {
  readonly store: Pick<WorkerStore, 'loadContent'>;
  /** Budget for all contents that are stored apart from their messages, in bytes. */
  readonly bytesMax: number;
  /** Maximum wait for free budget, in milliseconds. */
  readonly waitMsMax: number;
};

const NOTHING_HELD = (): void => {};

type Waiting = { readonly tenantId: string; readonly bytes: number; readonly enter: () => void };

/**
 * Creates the loader of contents that are too large to come with a claim. It works within a budget of bytes; one tenant may hold
 * at most half of the budget, or one content, so that a slow provider does not block the contents of other tenants.
 */
export function createContents({ store, bytesMax, waitMsMax }: ContentsOptions): Contents {
  let free = bytesMax;
  const waiting = new Set<Waiting>();
  const held = new Map<string, number>();

  function hold(tenantId: string, bytes: number): void {
    free -= bytes;
    const own = (held.get(tenantId) ?? 0) + bytes;
    if (own > 0) held.set(tenantId, own);
    else held.delete(tenantId);
  }

  function admit(): void {
    // First come, first served, so that large contents are not starved; only a tenant above its share is skipped.
    for (const one of waiting) {
      const own = held.get(one.tenantId) ?? 0;
      if (own > 0 && own + one.bytes > bytesMax / 2) continue;
      if (one.bytes > free) return;
      waiting.delete(one);
      hold(one.tenantId, one.bytes);
      one.enter();
    }
  }

  function room(tenantId: string, bytes: number): Promise<boolean> {
    return new Promise((resolve) => {
      const one: Waiting = {
        tenantId,
        bytes,
        enter() {
          clearTimeout(timer);
          resolve(true);
        },
      };
      const timer = setTimeout(() => {
        waiting.delete(one);
        resolve(false);
        admit();
      }, waitMsMax);
      waiting.add(one);
      admit();
    });
  }

  return {
    async load(message) {
      const apart = contentApart(message.content);
      if (apart === undefined) return { kind: 'ready', content: message.content, release: NOTHING_HELD };
      const bytes = Math.min(apart.storedBytes, bytesMax);
      if (!(await room(message.tenantId, bytes))) return { kind: 'unavailable' };
      const release = (): void => {
        hold(message.tenantId, -bytes);
        admit();
      };
      try {
        const content = await store.loadContent(message);
        if (content !== null) return { kind: 'ready', content, release };
        release();
        return { kind: 'gone' };
      } catch {
        release();
        return { kind: 'unavailable' };
      }
    },
  };
}
