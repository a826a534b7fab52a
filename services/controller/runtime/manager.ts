import type { Readiness } from '#core/platform/process/health.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import { within } from '#core/platform/process/deadline.ts';
import { pause, backoffMs } from '#core/platform/process/pause.ts';
import { drain, type EndWatch } from '#core/platform/process/shutdown.ts';
import type { ControllerLoop } from './controller-loop.ts';
import { exitNow } from './exit-now.ts';
import { createHealthChecks, type HealthChecks } from './health-checks.ts';
import type { Elector } from './leader.ts';
import type { Reflector } from './reflector.ts';

/**
 * The leader's work outside its controllers, such as creating objects at the start, by names for the log. Each starts with
 * the controllers and is awaited at the end; an error is logged and that work alone restarted after a pause.
 */
export type LeaderWork = { readonly [name: string]: (signal: AbortSignal) => Promise<void> };

export type ManagerOptions = {
  readonly log: Logger;
  readonly end: EndWatch;
  readonly reflectors: readonly Pick<Reflector, 'cache' | 'run' | 'silentMs'>[];
  readonly controllers: readonly ControllerLoop[];
  /** Absent: this process always leads and must be the only one. */
  readonly elector?: Elector | undefined;
  /** Opens the probes first; they are closed last. */
  readonly openHealth: (checks: HealthChecks) => Promise<AsyncDisposable>;
  /** Checks of the process itself, in addition to those of the caches, such as the database schema. */
  readonly ready?: () => Readiness | Promise<Readiness>;
  readonly whileLeading?: LeaderWork;
  /** How long passes in progress may take at shutdown, in milliseconds. */
  readonly shutdownGraceMs: number;
  /** How long the caches may take to fill at the start. Default 120,000. */
  readonly syncTimeoutMs?: number;
  /** Ends the process when the lease is lost. */
  readonly exit?: (code: number) => void;
};

/** Time after the grace period for passes to end once their signal has aborted. */
const ABORT_MS = 2_000;

/**
 * Runs a controller from start to end. Start: probes, caches, election, reconciling. End: no new passes, wait for those in
 * progress, release the lease, close the rest. The lease is held until the last pass has ended; if a pass does not end, the
 * lease is left to expire. A lost lease ends the process immediately.
 * @throws Error when the caches cannot be filled in time.
 */
export async function runManager(options: ManagerOptions): Promise<void> {
  const { log, end, reflectors, elector } = options;
  await using stack = new AsyncDisposableStack();
  stack.use(await options.openHealth(createHealthChecks({ ...options, isEnding: end.isEnding })));

  const watching = new AbortController();
  const reflecting = Promise.all(reflectors.map((reflector) => reflector.run(watching.signal)));
  stack.defer(async () => {
    watching.abort();
    await reflecting;
  });
  if (!(await synced(options))) return;

  const electing = new AbortController();
  const working = new AbortController();
  const reign = elector?.run(electing.signal).then((how) => {
    if (how !== 'lost') return;
    working.abort(new Error('The lease was lost'));
    log.error('Lost the lease, and so exited');
    (options.exit ?? exitNow)(1);
  });
  let isIdle = true;
  stack.defer(async () => {
    electing.abort();
    await reign;
    if (isIdle) await elector?.release();
  });
  await Promise.race([elector?.elected, end.ended]);
  if (!end.isEnding()) isIdle = await lead(options, working);
}

/** Waits for the caches. @returns false when the process should end. */
async function synced({ reflectors, end, log, syncTimeoutMs = 120_000 }: ManagerOptions): Promise<boolean> {
  const all = Promise.all(reflectors.map(({ cache }) => cache.synced));
  const first = await within(Promise.race([all, end.ended]), syncTimeoutMs, () => 'late' as const);
  if (first === 'late') {
    const kinds = reflectors.filter(({ cache }) => !cache.isSynced()).map(({ cache }) => cache.kind);
    throw new Error(`The API server did not list ${kinds.join(', ')} within ${syncTimeoutMs} ms`);
  }
  if (end.isEnding()) return false;
  log.info({ objects: reflectors.map(({ cache }) => [...cache.keys()].length) }, 'Filled the caches');
  return true;
}

/** Reconciles until the end. @returns whether all work has ended, so that another process may start. */
async function lead(options: ManagerOptions, working: AbortController): Promise<boolean> {
  const { controllers, whileLeading = {}, end, log, shutdownGraceMs } = options;
  const leading = new AbortController();
  const signal = AbortSignal.any([leading.signal, working.signal]);
  const besides = Object.entries(whileLeading).map(([name, work]) =>
    repeatUntilDone(work, log.child({ work: name }), signal),
  );
  for (const controller of controllers) controller.start(working.signal);

  await end.ended;
  leading.abort();
  const stopped = Promise.all([...besides, ...controllers.map((controller) => controller.stop())]);
  if (await drain('reconciles', stopped, shutdownGraceMs, log)) return true;
  working.abort(new Error('The process ends'));
  return drain('aborted reconciles', stopped, ABORT_MS, log);
}

async function repeatUntilDone(work: LeaderWork[string], log: Logger, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    try {
      await work(signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ err: error }, 'Work of the leader failed, and will be tried again');
      await pause(backoffMs(attempt), signal);
    }
  }
}
