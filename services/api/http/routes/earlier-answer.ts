import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { findAnswer } from '#core/store/idempotency.ts';
import { inSlot, type SharedSlots } from '../admission/shared-slots.ts';
import { replayOf, type CreateResult, type IdempotencyClaim } from './idempotency.ts';

/** Looks up stored answers, in turns, because a look-up waits for a call with the same key that is under way. */
export type Replays = {
  /** The connections for changes. */
  readonly sql: Sql;
  readonly slots: SharedSlots;
};

/**
 * Returns the stored answer of an earlier call with the same key. Called before work that a replay must neither wait for
 * nor repeat, such as a call to Vault. Null when there is none.
 * @param of the tenant of the call; for a call that creates one, the user whose turns it takes.
 * @throws AppError `idempotency_mismatch`
 */
export async function earlierAnswer<Body>(
  { sql, slots }: Replays,
  of: TenantId | { readonly creator: string },
  claim: IdempotencyClaim | null,
  restore?: (stored: Body, nonce: Uint8Array) => Body,
): Promise<CreateResult<Body> | null> {
  if (claim === null) return null;
  const [tenantId, owner] = typeof of === 'string' ? [of, of] : [null, of.creator];
  const stored = await inSlot(slots, owner, () => findAnswer(sql, tenantId, claim));
  return stored === undefined ? null : replayOf(stored, claim, restore);
}
