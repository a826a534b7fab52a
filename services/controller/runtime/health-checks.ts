import type { Readiness } from '#core/platform/process/health.ts';
import type { Elector } from './leader.ts';
import type { Reflector } from './reflector.ts';

/** What the probes ask. */
export type HealthChecks = {
  /** True on a process that waits for the lease as well: its caches are warm, and a rollout must not wait for it to lead. */
  readonly ready: () => Promise<Readiness>;
  readonly live: () => boolean;
};

export type HealthCheckOptions = {
  readonly reflectors: readonly Pick<Reflector, 'cache' | 'lastContactAt'>[];
  readonly elector?: Pick<Elector, 'isOverdue'> | undefined;
  readonly isEnding: () => boolean;
  /** Checks of the process's own, such as the database schema. */
  readonly ready?: (() => Readiness | Promise<Readiness>) | undefined;
};

/** Even a quiet watch says something every minute, and begins anew every five. */
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
     * An event loop that is stuck does not answer at all. A cache that heard nothing for ten minutes is started anew even
     * if the API server is what is away: there is nothing to lose, and whatever hangs on our side is gone with it.
     */
    live: () =>
      elector?.isOverdue() !== true &&
      reflectors.every(({ lastContactAt }) => Date.now() - lastContactAt() <= SILENCE_MS_MAX),
  };
}
