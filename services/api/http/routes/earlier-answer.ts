import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { createOnce, type CreateResult, type IdempotencyClaim } from './idempotency.ts';
import { inSlot, type SharedSlots } from '../admission/shared-slots.ts';

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
  const isTenant = typeof of === 'string';
  try {
    return await inSlot(slots, isTenant ? of : of.creator, () =>
      createOnce<Body>(sql, {
        tenantId: isTenant ? of : null,
        claim,
        create: () => Promise.reject(new NothingStored()),
        ...(restore === undefined ? {} : { restore }),
      }),
    );
  } catch (error) {
    if (error instanceof NothingStored) return null;
    throw error;
  }
}

class NothingStored extends Error {
  override readonly name = 'NothingStored';
}
