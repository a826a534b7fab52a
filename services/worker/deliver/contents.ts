import { contentApart } from '#core/domain/content.ts';
import type { ClaimedMessage, DeliveryStore } from '#core/store/deliveries.ts';

export type LoadedContent =
  | { readonly kind: 'ready'; readonly content: unknown; readonly release: () => void }
  /** Not now: the budget is used up, or the database does not answer. */
  | { readonly kind: 'unavailable' }
  /** It was deleted after its message had been claimed. */
  | { readonly kind: 'gone' };

export type Contents = {
  /** The content takes memory from the budget until `release` gives it back. */
  readonly load: (message: ClaimedMessage) => Promise<LoadedContent>;
};

export type ContentsOptions = {
  readonly store: Pick<DeliveryStore, 'loadContent'>;
  /** Of all contents at once that are stored apart from their messages. */
  readonly bytesMax: number;
  /** How long one waits for room, in milliseconds. */
  readonly waitMsMax: number;
};

const NOTHING_HELD = (): void => {};

type Waiting = { readonly tenantId: string; readonly bytes: number; readonly enter: () => void };

/**
 * Fetches contents that are too large to come with a claim, within a budget of bytes. One tenant has half of the budget at
 * most, or one content: a slow provider holds up no other tenant's contents.
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
    // First come, first served, so that large ones get their turn; only a tenant above its share is passed over.
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
