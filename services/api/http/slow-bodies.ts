/** A body that is being received. */
export type Upload = {
  /** By `performance.now()`. */
  readonly startedAt: number;
  /** Returns the bytes received so far. */
  readonly received: () => number;
  /** Called when the body has taken too long. */
  readonly giveUp: () => void;
};

export type SlowBodies = {
  readonly watch: (upload: Upload) => void;
  readonly forget: (upload: Upload) => void;
  readonly stop: () => void;
};

export type BodyPace = {
  /** Time that every body gets, in milliseconds. */
  readonly graceMs: number;
  /** Each received byte adds time at this rate. */
  readonly bytesPerSecondMin: number;
};

/** Checks all bodies in flight once a second, or more often when their time is shorter than that. */
export function createSlowBodies({ graceMs, bytesPerSecondMin }: BodyPace): SlowBodies {
  const uploads = new Set<Upload>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    const now = performance.now();
    for (const upload of uploads) {
      const allowedMs = graceMs + (upload.received() / bytesPerSecondMin) * 1_000;
      if (now - upload.startedAt <= allowedMs) continue;
      uploads.delete(upload);
      upload.giveUp();
    }
    if (uploads.size === 0) stop();
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  return {
    watch(upload) {
      uploads.add(upload);
      timer ??= setInterval(look, Math.min(1_000, graceMs)).unref();
    },
    forget: (upload) => void uploads.delete(upload),
    stop,
  };
}
