import type { ControllerLoopOptions } from '../../services/controller/runtime/controller-loop.ts';

const ignore = (): void => undefined;

/** The options of a controller's loop that leads and of which nothing is measured. */
export const UNMEASURED_LOOP = {
  workers: 4,
  timeoutMs: 60_000,
  isLeading: () => true,
  metrics: { concurrency: ignore, started: ignore, finished: ignore },
  queueMetrics: {
    depth: ignore,
    added: ignore,
    retried: ignore,
    waited: ignore,
    worked: ignore,
    running: ignore,
  },
} satisfies Partial<ControllerLoopOptions>;
