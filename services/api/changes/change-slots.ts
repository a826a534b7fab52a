import { DATABASE_DEADLINE_MS } from '#core/store/query/tenant-scope.ts';
import { createSharedSlots, type SharedSlots } from '../http/admission/shared-slots.ts';

/**
 * Changes that wait for their turn; a request that waits longer than a transaction may take is answered with 503. Changes of one
 * tenant also wait for each other in the database.
 */
const WAITING_CHANGES = {
  waitingPerOwnerMax: 200,
  waitingMax: 1_000,
  waitMsMax: DATABASE_DEADLINE_MS,
};

/** Shares the connections for changes among tenants. */
export function createChangeSlots(connectionsMax: number): SharedSlots {
  return createSharedSlots({
    ...WAITING_CHANGES,
    // The last one is left for statements that wait for nobody.
    slots: connectionsMax - 1,
    heldPerOwnerMax: Math.ceil((connectionsMax - 1) / 2),
  });
}
