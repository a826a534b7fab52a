import type { Readiness } from '#core/platform/health.ts';
import type { Logger } from '#core/platform/logger.ts';
import type { EndWatch } from '#core/platform/shutdown.ts';
import type { ControllerLoop } from './controller-loop.ts';
import type { Elector } from './leader.ts';
import type { Reflector } from './reflector.ts';

/** What the probes ask. */
export type HealthChecks = {
  readonly ready: () => Promise<Readiness>;
  readonly live: () => boolean;
};

export type ManagerOptions = {
  readonly log: Logger;
  readonly end: EndWatch;
  readonly reflectors: readonly Reflector[];
  readonly controllers: readonly ControllerLoop[];
  /** Absent: this process leads from the start, and must be the only one. */
  readonly elector?: Elector | undefined;
  /** Opens the probes, before anything else; they are closed after everything else. */
  readonly openHealth: (checks: HealthChecks) => Promise<AsyncDisposable>;
  /** Checks of the process's own beside those of the caches, such as the database schema. */
  readonly ready?: () => Readiness | Promise<Readiness>;
  /**
   * Work of the leader beside its controllers, such as objects to create at the start. Begins with them and is waited for
   * at the end; what it throws is logged, and it is begun anew after a pause.
   */
  readonly whileLeading?: (signal: AbortSignal) => Promise<void>;
  /** How long passes under way may take at the end, in milliseconds. */
  readonly shutdownGraceMs: number;
  /** How long the caches may take at the start. Default 120,000. */
  readonly syncTimeoutMs?: number;
};
