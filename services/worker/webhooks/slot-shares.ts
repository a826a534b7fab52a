import { slotsLeftTo } from '#core/domain/queue/fair-share.ts';

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
  const heldBy = new Map<string, number>();
  let inFlight = 0;

  return {
    get inFlight() {
      return inFlight;
    },
    get hasSlot() {
      return inFlight < inFlightMax;
    },
    hasShare(tenantId) {
      const held = heldBy.get(tenantId) ?? 0;
      const tenants = heldBy.size + (held === 0 ? 1 : 0);
      const shared = { slots: inFlightMax, taken: inFlight, tenants, weights: tenants };
      return slotsLeftTo({ held, heldMax: inFlightMax, weight: 1 }, shared) > 0;
    },
    take(tenantId) {
      inFlight++;
      heldBy.set(tenantId, (heldBy.get(tenantId) ?? 0) + 1);
    },
    free(tenantId) {
      inFlight--;
      const held = (heldBy.get(tenantId) ?? 1) - 1;
      if (held === 0) heldBy.delete(tenantId);
      else heldBy.set(tenantId, held);
    },
  };
}
