import type { MonotonicClock } from '#core/domain/clock.ts';

/**
 * Returns a `work` that runs once however many ask: all who ask during a run get its answer, and those who ask within `keptMs`
 * after its end too. A failure is shared in the same way.
 */
export function shareAnswer<T>(
  work: () => Promise<T>,
  keptMs: number,
  monotonicMs: MonotonicClock = () => performance.now(),
): () => Promise<T> {
  let shared: Promise<T> | undefined;
  let keptUntil = Number.POSITIVE_INFINITY;

  async function run(): Promise<T> {
    try {
      return await work();
    } finally {
      keptUntil = monotonicMs() + keptMs;
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
