/** A body under way. */
export type Upload = {
  /** By `performance.now()`. */
  readonly startedAt: number;
  /** Bytes so far. */
  readonly received: () => number;
  /** It has taken too long. */
  readonly giveUp: () => void;
};

export type SlowBodies = {
  readonly watch: (upload: Upload) => void;
  readonly forget: (upload: Upload) => void;
  readonly stop: () => void;
};

export type BodyPace = {
  /** What every body has, in milliseconds. */
  readonly graceMs: number;
  /** What it has beyond that goes with what has come. */
  readonly bytesPerSecondMin: number;
};

/** Looks at all bodies under way once a second, or more often where they have less time than that. */
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
