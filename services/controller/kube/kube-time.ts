import { V1MicroTime } from '@kubernetes/client-node';

/**
 * Formats a time with microseconds, as leases and events require. The API server answers 400 to the milliseconds of a
 * JavaScript date, and a lease that can never be written looks like an election that nobody wins.
 */
export function microTime(epochMs: number): string {
  return new V1MicroTime(epochMs).toISOString();
}
