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

/** Commits that one pass takes, if no more wait. */
const CHANGES_AT_ONCE = 200;
/**
 * A pass over a long queue of commits first looks through all of it, half a second per million: with two hundred commits a pass, a
 * queue of some millions, as after an outage of all workers, would grow faster than it is numbered.
 */
const CHANGES_MAX = 2_000;
/** Passes grow until they have so many events, which take a quarter of a second. */
const EVENTS_AT_ONCE = 10_000;
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
  let most = CHANGES_AT_ONCE;
  for (;;) {
    const { outcome, numbered, endpointTenants } = await store.numberChanges(most, NUMBERING_GAP_MS);
    onNumbered(numbered);
    onToMatch(endpointTenants);
    if (outcome === 'early') return 'early';
    if (outcome !== 'more' || isStopping()) return 'done';
    onBatch();
    most = nextMost(most, numbered);
  }
}

/** Returns how many commits the next pass takes, by what the last one has taken and how many events these had. */
function nextMost(taken: number, events: number): number {
  const fitting = Math.floor((EVENTS_AT_ONCE * taken) / Math.max(events, 1));
  return Math.min(Math.max(Math.min(fitting, 2 * taken), CHANGES_AT_ONCE), CHANGES_MAX);
}
