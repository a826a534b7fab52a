/** The slots of a process, and the tenants that share them now. */
export type Shared = {
  /** All slots, at least 1. */
  readonly slots: number;
  /** Slots that are taken. */
  readonly taken: number;
  /** Number of tenants that wait or hold slots, and the sum of their weights. */
  readonly tenants: number;
  readonly weights: number;
};

export type Holding = {
  /** Slots that the tenant holds. */
  readonly held: number;
  /** Maximum number of slots of the tenant, even in an empty process. */
  readonly heldMax: number;
  /** Relative share, 1 or more. */
  readonly weight: number;
};

/** Part of all slots that a single tenant may hold. */
const ALONE = 1 / 2;
/** Part of all slots that is reserved for tenants that hold few. */
const RESERVED = 1 / 16;
/** What counts as few: a part of all slots, and a part of the free ones. The rest is left to tenants without any. */
const FEW = 1 / 128;
const FEW_OF_FREE = 1 / 8;
/** Minimum part of the free slots that a tenant may hold, however heavy the others are. */
const FREE_PART_MIN = 1 / 2;

/**
 * Returns how many more slots a tenant may take. Beyond a few, a tenant may hold at most the free slots without the reserve,
 * times its weight relative to the mean: n equal tenants get an equal part each and leave one part for the next tenant, and as a
 * process fills, each tenant's maximum shrinks. A tenant with few slots may also take from the reserve, and one without any may
 * take the last slot. A single tenant gets what its plan allows, up to half of the process.
 */
export function slotsLeftTo({ held, heldMax, weight }: Holding, shared: Shared): number {
  const { slots, taken, tenants, weights } = shared;
  const free = slots - taken;
  const most = Math.min(Math.min(heldMax, Math.ceil(slots * ALONE)) - held, free);
  if (tenants <= 1 || most <= 0) return Math.max(0, most);
  const part = Math.max(FREE_PART_MIN, (tenants * weight) / weights);
  // With `n` more, `held + n` is at most `part` of what is free then.
  const shareLeft = Math.floor((part * (free - Math.floor(slots * RESERVED)) - held) / (1 + part));
  const few = Math.max(1, Math.floor(Math.min(slots * FEW, free * FEW_OF_FREE)));
  return Math.max(0, Math.min(most, Math.max(shareLeft, few - held)));
}
