import type { EpochClock } from '#core/domain/clock.ts';
import { HOUR_MS } from '#core/domain/text/duration.ts';

/** Returns the label under which a tenant is counted. */
export type TenantLabels = (tenantId: string) => string;

export type TenantLabelsOptions = {
  /** Maximum number of tenants with a label of their own, 1 or more. */
  readonly most: number;
  /** Called when a tenant gets a label of its own. */
  readonly onSeated: (tenantId: string) => void;
  /** Called when a tenant loses its label; its series must be removed. */
  readonly onLeft: (tenantId: string) => void;
  readonly epochMs?: EpochClock;
};

/** Label of all tenants without one of their own. */
export const OTHER_TENANTS = 'other';

/** Long enough for `rate()` over any window of an alert to have seen a series' last value before the series is removed. */
const SEAT_IDLE_MS = HOUR_MS;

/**
 * Creates labels: the first `most` tenants get one of their own. A new tenant replaces one that was idle for an hour, else it
 * shares the common label. The label is the id: both services know it, it never changes and is never reused, logs and traces
 * contain it too, and it reveals no customer's name to readers of metrics.
 */
export function createTenantLabels({
  most,
  onSeated,
  onLeft,
  epochMs = Date.now,
}: TenantLabelsOptions): TenantLabels {
  /** When each tenant was counted last; the longest idle one comes first. */
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
    const time = epochMs();
    const isSeated = seats.delete(tenantId);
    if (!isSeated && !makeRoom(time)) return OTHER_TENANTS;
    seats.set(tenantId, time);
    if (!isSeated) onSeated(tenantId);
    return tenantId;
  };
}
