export type WaitingRoom = {
  readonly perOwnerMax: number;
  /** Across all owners. */
  readonly placesMax: number;
};

/**
 * Whether one more request of an owner may wait. No owner waits in more places than remain free, so that a new owner always finds
 * some: the dynamic threshold of A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for shared-memory packet
 * switches" (1998).
 * @param own Places of this owner.
 * @param all Places of all owners.
 */
export function mayWait({ perOwnerMax, placesMax }: WaitingRoom, own: number, all: number): boolean {
  return own < Math.min(perOwnerMax, placesMax - all);
}
