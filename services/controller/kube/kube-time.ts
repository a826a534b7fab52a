import { V1MicroTime } from '@kubernetes/client-node';

/**
 * A time as leases and events want it, with six digits of a second. The API server answers 400 to the three digits of a
 * plain date, and a lease that is never written looks like an election that nobody wins.
 */
export function microTime(epochMs: number): string {
  return new V1MicroTime(epochMs).toISOString();
}
