/** A body that is being received. */
export type IncomingBody = {
  /** By `performance.now()`. */
  readonly startedAt: number;
  /** Returns the bytes received so far. */
  readonly received: () => number;
  /** Called when the body has taken too long. */
  readonly giveUp: () => void;
};

export type SlowBodies = {
  readonly watch: (body: IncomingBody) => void;
  readonly forget: (body: IncomingBody) => void;
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
  const bodies = new Set<IncomingBody>();
  let timer: NodeJS.Timeout | undefined;

  function look(): void {
    const now = performance.now();
    for (const body of bodies) {
      const allowedMs = graceMs + (body.received() / bytesPerSecondMin) * 1_000;
      if (now - body.startedAt <= allowedMs) continue;
      bodies.delete(body);
      body.giveUp();
    }
    if (bodies.size === 0) stop();
  }

  function stop(): void {
    clearInterval(timer);
    timer = undefined;
  }

  return {
    watch(body) {
      bodies.add(body);
      timer ??= setInterval(look, Math.min(1_000, graceMs)).unref();
    },
    forget: (body) => void bodies.delete(body),
    stop,
  };
}
