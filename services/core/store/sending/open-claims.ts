import type { ValuesQuery } from '../query/camel-rows.ts';

/**
 * The claims of this process that the driver has neither answered nor failed. A claim whose deadline has passed may still wait in
 * the driver's queue, so the database does not know of it yet.
 */
export type OpenClaims = {
  /** Follows a claim from when it is sent until it is settled. */
  follow(query: ValuesQuery): ValuesQuery;
  /**
   * Whether a claim is open.
   * @param leaseMs older ones do not count: the driver can lose a queued query when its connection closes (postgres#1186).
   */
  isOpen(leaseMs: number): boolean;
};

export function openClaims(): OpenClaims {
  /** When each was sent, by `performance.now()`. */
  const sent = new Map<symbol, number>();

  return {
    follow: (query) => ({
      values() {
        const claim = Symbol('claim');
        sent.set(claim, performance.now());
        const answer = query.values();
        const settle = (): void => void sent.delete(claim);
        answer.then(settle, settle);
        return answer;
      },
    }),
    isOpen(leaseMs) {
      for (const [claim, at] of sent) if (performance.now() - at > leaseMs) sent.delete(claim);
      return sent.size > 0;
    },
  };
}
