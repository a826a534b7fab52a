import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** Consecutive calls without an answer that open the breaker: more than a lost packet causes. */
const TIMEOUTS_MAX = 3;
/** Time after a timeout until the next call tests whether Vault answers again. */
const COOL_DOWN_MS = 5_000;

type Ensure = TenantDeps['keys']['ensure'];

/**
 * While Vault answers no call within its deadline, calls fail at once and one at a time tests it. Otherwise each pass would wait
 * for the deadline, and thousands of unchanged tenants would occupy all workers while changes of limits and suspensions wait.
 */
export function withKeyBreaker(ensure: Ensure): Ensure {
  let timeouts = 0;
  let testAt = 0;

  return async (tenantId) => {
    if (timeouts >= TIMEOUTS_MAX) {
      if (performance.now() < testAt)
        throw new KeyringError('unavailable', 'Vault was not called: it did not answer the last calls');
      // Until this call ends.
      testAt = Infinity;
    }
    try {
      const key = await ensure(tenantId);
      timeouts = 0;
      return key;
    } catch (error) {
      timeouts = error instanceof KeyringError && error.fault === 'deadline' ? timeouts + 1 : 0;
      throw error;
    } finally {
      testAt = performance.now() + COOL_DOWN_MS;
    }
  };
}
