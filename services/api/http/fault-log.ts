import type { MonotonicClock } from '#core/domain/clock.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import type { LogFields, Logger } from '#core/platform/telemetry/logger.ts';

/** Time between two lines about the same fault of a dependency. */
const REPEAT_MS = 5_000;

/**
 * Creates a function that logs failed requests. While a dependency is away every request fails in the same way, and a line with a
 * stack for each would cost more than the requests: of each fault of a dependency one line is written every five seconds, and the
 * next one counts those in between (`leftOut`). Each request has a line of its own anyway.
 */
export function createFaultLog(
  log: Pick<Logger, 'error'>,
  monotonicMs: MonotonicClock = () => performance.now(),
): (fields: LogFields, error: unknown) => void {
  const lines = new Map<string, { readonly at: number; leftOut: number }>();
  return (fields, error) => {
    const fault = dependencyFaultOf(error);
    const last = fault === null ? undefined : lines.get(fault);
    if (last !== undefined && monotonicMs() - last.at < REPEAT_MS) {
      last.leftOut += 1;
      return;
    }
    const leftOut = last?.leftOut ?? 0;
    if (fault !== null) lines.set(fault, { at: monotonicMs(), leftOut: 0 });
    log.error({ ...fields, ...(leftOut === 0 ? {} : { leftOut }), err: error }, 'Request failed');
  };
}

/** Returns a bounded word for the fault of a dependency; null for any other error, each of which may be a different bug. */
function dependencyFaultOf(error: unknown): string | null {
  if (error instanceof DependencyError) return `${error.dependency} ${error.fault}`;
  if (databaseFaultOf(error) === 'away') return `postgres ${(error as { code?: string }).code}`;
  return error instanceof Error && error.cause !== undefined ? dependencyFaultOf(error.cause) : null;
}
