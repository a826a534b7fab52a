/** A task that runs repeatedly until it is stopped; runs never overlap. */
export type Repeating = {
  /** Runs the task after `delayMs` instead of at the next interval. */
  wake(delayMs?: number): void;
  /** Stops, and waits for a run under way. */
  stop(): Promise<void>;
};

export type RepeatOptions = {
  readonly everyMs: number;
  /** Called for every failure; the task continues. */
  readonly onError: (error: unknown) => void;
  /** Adds jitter between processes: each interval is 80 to 120 % of `everyMs`. */
  readonly random?: () => number;
};

export function repeat(task: () => Promise<void>, options: RepeatOptions): Repeating {
  const random = options.random ?? Math.random;
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Number.POSITIVE_INFINITY;
  let running: Promise<void> | undefined;
  let stopped = false;

  function plan(delayMs: number): void {
    const at = performance.now() + delayMs;
    if (stopped || at >= dueAt) return;
    clearTimeout(timer);
    dueAt = at;
    timer = setTimeout(run, delayMs);
  }

  function run(): void {
    dueAt = Number.POSITIVE_INFINITY;
    // A wake-up during a run causes another run after it.
    if (running !== undefined) {
      void running.then(() => plan(0));
      return;
    }
    running = task()
      .catch(options.onError)
      .finally(() => {
        running = undefined;
        plan(options.everyMs * (0.8 + 0.4 * random()));
      });
  }

  plan(0);
  return {
    wake: (delayMs = 0) => plan(delayMs),
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}
