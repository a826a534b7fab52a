import { contentApart } from '#core/domain/message/content.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { createContentBudget } from './content-budget.ts';

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

/** Creates the loader of contents that are too large to come with a claim. It works within a budget of bytes. */
export function createContents({ store, bytesMax, waitMsMax }: ContentsOptions): Contents {
  const budget = createContentBudget({ bytesMax, waitMsMax });
  return {
    async load(message) {
      const apart = contentApart(message.content);
      if (apart === undefined) return { kind: 'ready', content: message.content, release: NOTHING_HELD };
      const release = await budget.enter(message.tenantId, apart.storedBytes);
      if (release === undefined) return { kind: 'unavailable' };
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
