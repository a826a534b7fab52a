import { slotsLeftTo } from '#core/domain/queue/fair-share.ts';
import { createHoldings } from '#core/domain/queue/holdings.ts';

/** The slots in which a worker calls endpoints, and which tenants hold them. */
export type SlotShares = {
  readonly inFlight: number;
  readonly hasSlot: boolean;
  /** Whether the tenant may take another slot and leave their shares to the others. */
  hasShare(tenantId: string): boolean;
  take(tenantId: string): void;
  free(tenantId: string): void;
};

/** @param inFlightMax number of slots. */
export function createSlotShares(inFlightMax: number): SlotShares {
  const slots = createHoldings();

  return {
    get inFlight() {
      return slots.total;
    },
    get hasSlot() {
      return slots.total < inFlightMax;
    },
    hasShare(tenantId) {
      const held = slots.of(tenantId);
      const tenants = slots.owners + (held === 0 ? 1 : 0);
      const shared = { slots: inFlightMax, taken: slots.total, tenants, weights: tenants };
      return slotsLeftTo({ held, heldMax: inFlightMax, weight: 1 }, shared) > 0;
    },
    take: (tenantId) => slots.add(tenantId, 1),
    free: (tenantId) => slots.add(tenantId, -1),
  };
}
