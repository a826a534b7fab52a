import type { MonotonicClock } from '#core/domain/clock.ts';

export type EndedRun = { readonly tookMs: number; readonly isFailed: boolean };

/**
 * Returns a `work` that runs once however many ask: all who ask during a run get its answer, and those who ask within `keptMs`
 * after its end too. A failure is shared in the same way.
 * @param keptMs in milliseconds, or what determines them from the run.
 */
export function shareAnswer<T>(
  work: () => Promise<T>,
  keptMs: number | ((run: EndedRun) => number),
  monotonicMs: MonotonicClock = () => performance.now(),
): () => Promise<T> {
  let shared: Promise<T> | undefined;
  let keptUntil = Number.POSITIVE_INFINITY;

  async function run(): Promise<T> {
    const begunAt = monotonicMs();
    let isFailed = true;
    try {
      const answer = await work();
      isFailed = false;
      return answer;
    } finally {
      const endedAt = monotonicMs();
      keptUntil =
        endedAt + (typeof keptMs === 'number' ? keptMs : keptMs({ tookMs: endedAt - begunAt, isFailed }));
    }
  }

  return () => {
    if (shared === undefined || monotonicMs() >= keptUntil) {
      keptUntil = Number.POSITIVE_INFINITY;
      shared = run();
    }
    return shared;
  };
}
