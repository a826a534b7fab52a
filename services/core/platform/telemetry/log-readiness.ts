import type { Logger } from './logger.ts';

/**
 * Returns a listener that logs each change of what a readiness check found, and why: Kubernetes does not show the answers of
 * probes.
 */
export function logReadiness(log: Logger): (failing: readonly string[], facts: object) => void {
  let last: string | undefined;
  return (failing, facts) => {
    const state = failing.join();
    if (state !== last && failing.length > 0) log.warn({ failing, ...facts }, 'Not ready');
    else if (last !== undefined && state !== last) log.info('Ready again');
    last = state;
  };
}
