import type { WorkerStore } from '#core/store/worker-store.ts';

export type NumberEventsDeps = {
  readonly store: Pick<WorkerStore, 'numberChanges'>;
  readonly onNumbered: (events: number) => void;
  /** Called with tenants whose new events may match an endpoint. */
  readonly onToMatch: (tenantIds: readonly string[]) => void;
  /** Called after each full batch. */
  readonly onBatch: () => void;
  readonly isStopping: () => boolean;
};

/** Commits that one pass takes. */
const CHANGES_AT_ONCE = 200;
/** Time between two passes of any workers: the more a pass takes at once, the less an event costs. */
export const NUMBERING_GAP_MS = 200;

/**
 * Numbers the events of everything committed since the last pass, in as many passes as needed.
 * @returns `early` if another worker's pass was so recent that a later call must go on.
 */
export async function numberEvents({
  store,
  onNumbered,
  onToMatch,
  onBatch,
  isStopping,
}: NumberEventsDeps): Promise<'done' | 'early'> {
  for (;;) {
    const { outcome, numbered, endpointTenants } = await store.numberChanges(
      CHANGES_AT_ONCE,
      NUMBERING_GAP_MS,
    );
    onNumbered(numbered);
    onToMatch(endpointTenants);
    if (outcome === 'early') return 'early';
    if (outcome !== 'more' || isStopping()) return 'done';
    onBatch();
  }
}
