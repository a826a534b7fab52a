import { LRUCache } from 'lru-cache';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { Breakers } from './breakers.ts';

export type AccountStatusDeps = {
  readonly store: Pick<WorkerStore, 'noteAccountResult' | 'noteAccountHealth'>;
  readonly breakers: Pick<Breakers, 'open' | 'health'>;
  readonly onMoved: (accountId: string, tenantId: string, status: string) => void;
};

const REFUSED_MAX = 20_000;
/** Time between two corrections of one account's health: many messages are claimed with the old one. */
const HEALTH_PAUSE_MS = 60_000;

/**
 * Returns a function that updates an account's status from the outcome of each call. It writes only when the status may change:
 * on a first success, on a refused credential, and on a success after a refusal. A success also corrects the health that a
 * worker stored which has ended: this worker's breaker has no change to tell.
 */
export function createAccountStatus(deps: AccountStatusDeps) {
  /**
   * Accounts whose last call was refused. After an eviction, the next success is written only if the claim's status asks for it.
   */
  const refused = new LRUCache<string, true>({ max: REFUSED_MAX });
  const cleared = new LRUCache<string, true>({ max: REFUSED_MAX, ttl: HEALTH_PAUSE_MS });
  const corrected = new LRUCache<string, true>({ max: REFUSED_MAX, ttl: HEALTH_PAUSE_MS });

  return async (message: ClaimedMessage, outcome: AttemptOutcome): Promise<void> => {
    const { accountId } = message;
    if (accountId === null) return;
    if (outcome.kind === 'accepted') {
      if (message.isHealthStale) await correctHealth(accountId);
      const news =
        message.accountStatus === 'unverified' ||
        message.accountStatus === 'invalid' ||
        // Another worker saw the refusal. Messages that were claimed before this was stored say the same.
        (message.isAccountRefused && !cleared.has(accountId));
      if (!refused.delete(accountId) && !news) return;
      cleared.set(accountId, true);
      await apply(accountId, message, null);
    } else if (outcome.kind === 'rejected_transient' && outcome.failure.class === 'auth_or_config') {
      refused.set(accountId, true);
      if (message.accountStatus === 'invalid') return;
      await apply(accountId, message, outcome.failure.code);
    }
  };

  async function correctHealth(accountId: string): Promise<void> {
    if (deps.breakers.health(accountId) !== 'healthy' || corrected.has(accountId)) return;
    corrected.set(accountId, true);
    await deps.store.noteAccountHealth(accountId, 'healthy');
  }

  async function apply(
    accountId: string,
    { tenantId, accountVersion, provider }: ClaimedMessage,
    refusal: string | null,
  ): Promise<void> {
    if (accountVersion === null) return;
    const moved = await deps.store.noteAccountResult(accountId, accountVersion, refusal);
    if (moved === 'invalid') deps.breakers.open(accountId, provider);
    if (moved !== null) deps.onMoved(accountId, tenantId, moved);
  }
}
