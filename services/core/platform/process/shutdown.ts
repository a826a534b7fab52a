import type { Logger } from '../telemetry/logger.ts';
import { within } from './deadline.ts';

/** Why a process ends: a signal, or a fault that left it in an unknown state. */
export type Ending =
  | { readonly kind: 'signal'; readonly signal: NodeJS.Signals }
  | { readonly kind: 'fault'; readonly error: unknown };

export type EndWatch = Disposable & {
  /** Resolves once, with the first reason. */
  readonly ended: Promise<Ending>;
  /** For readiness: true from the first reason on. */
  readonly isEnding: () => boolean;
};

const FAULTS_LOGGED_MAX = 10;

/**
 * Listens for signals and uncaught exceptions. A fault sets the exit code to 1 and ends the process in the same order as a
 * signal, so that work in flight is recorded and logs are written; a second signal kills at once.
 */
export function watchForEnd(
  log: Logger,
  signals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'],
): EndWatch {
  const { promise, resolve } = Promise.withResolvers<Ending>();
  let isEnding = false;
  let faults = 0;
  const end = (ending: Ending): void => {
    if (isEnding) return;
    isEnding = true;
    resolve(ending);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (isEnding) {
      // Restores the default of a signal, which ends the process.
      for (const one of signals) process.removeListener(one, onSignal);
      process.kill(process.pid, signal);
      return;
    }
    log.info({ signal }, 'Ending on a signal');
    end({ kind: 'signal', signal });
  };
  const onFault = (error: unknown): void => {
    faults += 1;
    // Writing the log may itself be the fault: logging every fault would then cause the next one, and the process would never
    // end.
    if (faults <= FAULTS_LOGGED_MAX) log.error({ err: error }, 'Ending on an exception that nobody caught');
    process.exitCode = 1;
    end({ kind: 'fault', error });
  };
  for (const signal of signals) process.on(signal, onSignal);
  // Unhandled rejections arrive here too.
  process.on('uncaughtException', onFault);
  return {
    ended: promise,
    isEnding: () => isEnding,
    [Symbol.dispose]() {
      for (const signal of signals) process.removeListener(signal, onSignal);
      process.removeListener('uncaughtException', onFault);
    },
  };
}

/** Waits for the work, but at most this long. Returns whether it ended. A failure of the work is logged and counts as ended. */
export async function drain(
  name: string,
  work: Promise<unknown>,
  deadlineMs: number,
  log: Logger,
): Promise<boolean> {
  const done = work.then(
    () => true,
    (error: unknown) => {
      log.error({ err: error, part: name }, 'A part failed while it was drained');
      return true;
    },
  );
  const isDone = await within(done, deadlineMs, () => false);
  if (!isDone) log.warn({ part: name, deadlineMs }, 'A part was not drained in time');
  return isDone;
}
