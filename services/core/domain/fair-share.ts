/** What a process has to share among the tenants that want something of it now. */
export type Shared = {
  /** All places, at least 1. */
  readonly places: number;
  /** Those that are taken. */
  readonly taken: number;
  /** Tenants that wait or hold places, and the sum of their weights. */
  readonly tenants: number;
  readonly weights: number;
};

export type Holding = {
  /** Places that the tenant has. */
  readonly held: number;
  /** Most that it may have, however empty the process is. */
  readonly heldMax: number;
  /** Relative share, 1 or more. */
  readonly weight: number;
};

/** Part of all places that one tenant alone may hold. */
const ALONE = 1 / 2;
/** Part of all places that is left to those who hold few. */
const RESERVED = 1 / 16;
/** Part of all places that is few, and part of those that are free: what is left is for many who hold nothing yet. */
const FEW = 1 / 128;
const FEW_OF_FREE = 1 / 8;
/** The least of what is free that a tenant may hold, however heavy the others are. */
const FREE_PART_MIN = 1 / 2;

/**
 * How many more places a tenant may take. Beyond few, nobody holds more than what is free without the reserve, times its
 * weight relative to the mean: n equal tenants take an equal part each and leave one to who comes next, and as a process
 * fills, what each may hold shrinks. Who holds few takes from the reserve too, and who holds none takes the last place.
 * One alone has what its plan gives, over half of the process.
 */
export function placesLeftTo({ held, heldMax, weight }: Holding, shared: Shared): number {
  const { places, taken, tenants, weights } = shared;
  const free = places - taken;
  const most = Math.min(Math.min(heldMax, Math.ceil(places * ALONE)) - held, free);
  if (tenants <= 1 || most <= 0) return Math.max(0, most);
  const part = Math.max(FREE_PART_MIN, (tenants * weight) / weights);
  // With `n` more, `held + n` is at most `part` of what is free then.
  const shareLeft = Math.floor((part * (free - Math.floor(places * RESERVED)) - held) / (1 + part));
  const few = Math.max(1, Math.floor(Math.min(places * FEW, free * FEW_OF_FREE)));
  return Math.max(0, Math.min(most, Math.max(shareLeft, few - held)));
}
