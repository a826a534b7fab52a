/** Says under whose name a tenant is counted. */
export type TenantLabels = (tenantId: string) => string;

export type TenantLabelsOptions = {
  /** Tenants with a name of their own at a time, 1 or more. */
  readonly most: number;
  /** A tenant is counted under its own id from now on. */
  readonly onSeated: (tenantId: string) => void;
  /** No longer: its series are to go. */
  readonly onLeft: (tenantId: string) => void;
  readonly now?: () => number;
};

/** Everybody who has no name of their own. */
export const OTHER_TENANTS = 'other';

/** Long enough for `rate()` over any window of an alert to have seen the last of a series before it goes. */
const SEAT_IDLE_MS = 3_600_000;

/**
 * Gives the first `most` tenants a label of their own; a newcomer takes the place of whoever was idle for an hour, else
 * it is one of the others. The label is the id: both services know it, it never changes or comes again, logs and traces
 * carry it too, and it tells whoever may read metrics no customer's name.
 */
export function createTenantLabels({
  most,
  onSeated,
  onLeft,
  now = Date.now,
}: TenantLabelsOptions): TenantLabels {
  /** When each was counted last; whoever was idle for longest comes first. */
  const seats = new Map<string, number>();

  function makeRoom(time: number): boolean {
    if (seats.size < most) return true;
    const [longest] = seats;
    if (longest === undefined || time - longest[1] < SEAT_IDLE_MS) return false;
    seats.delete(longest[0]);
    onLeft(longest[0]);
    return true;
  }

  return (tenantId) => {
    const time = now();
    const isSeated = seats.delete(tenantId);
    if (!isSeated && !makeRoom(time)) return OTHER_TENANTS;
    seats.set(tenantId, time);
    if (!isSeated) onSeated(tenantId);
    return tenantId;
  };
}
