import type { Readiness } from '#core/platform/process/health.ts';
import type { Elector } from './leader.ts';
import type { Reflector } from './reflector.ts';

/** The checks behind the probes. */
export type HealthChecks = {
  /** Also true on a process that waits for the lease: its caches are warm, and a rollout must not wait for it to lead. */
  readonly ready: () => Promise<Readiness>;
  readonly live: () => boolean;
};

export type HealthCheckOptions = {
  readonly reflectors: readonly Pick<Reflector, 'cache' | 'silentMs'>[];
  readonly elector?: Pick<Elector, 'isOverdue'> | undefined;
  readonly isEnding: () => boolean;
  /** Checks of the process itself, such as the database schema. */
  readonly ready?: (() => Readiness | Promise<Readiness>) | undefined;
};

/** Even a quiet watch sends a bookmark every minute and restarts every five. */
const SILENCE_MS_MAX = 600_000;

export function createHealthChecks({
  reflectors,
  elector,
  isEnding,
  ready,
}: HealthCheckOptions): HealthChecks {
  return {
    async ready() {
      if (isEnding()) return { failing: ['ending'] };
      const unsynced = reflectors
        .filter(({ cache }) => !cache.isSynced())
        .map(({ cache }) => `cache_${cache.kind.toLowerCase()}`);
      const own = (await ready?.()) ?? { failing: [] };
      return { failing: [...unsynced, ...own.failing] };
    },
    /**
     * A stuck event loop does not answer at all. A process whose cache got no answer for ten minutes is restarted even if
     * the API server is down: a restart loses nothing, and it clears anything that hangs on our side.
     */
    live: () =>
      elector?.isOverdue() !== true && reflectors.every(({ silentMs }) => silentMs() <= SILENCE_MS_MAX),
  };
}
