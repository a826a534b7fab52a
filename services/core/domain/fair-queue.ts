import { placesLeftTo } from './fair-share.ts';
import { createFifo, type Fifo } from './fifo.ts';

/**
 * Who is served next: weighted deficit round robin over tenants, each with a cap on what it has in flight, which shrinks
 * as the process fills, a bounded queue in memory and, beyond that, a mark that more waits in the database. One tenant's
 * backlog can neither fill the memory nor keep another tenant waiting longer than one round; answers that take long
 * cannot fill the process.
 */
export type FairQueue<Item> = {
  /** Takes an item in, unless the tenant's queue is full: then the tenant is marked and false is returned. */
  offer(tenantId: string, priority: number, item: Item): boolean;
  /** Notes that messages of this tenant wait in the database. */
  markDue(tenantId: string): void;
  /** Ends the look that a turn asked for; until then there is no second one. Without `more` the mark goes too. */
  looked(tenantId: string, more: boolean): void;
  /** Picks up to `slots` items, or places for items from the database, and counts them as in flight. */
  take(slots: number): Turn<Item>;
  /** Gives back places that were taken, when a call has ended or an item turned out to be somebody else's. */
  release(tenantId: string, places?: number): void;
  setPolicy(tenantId: string, policy: TenantPolicy): void;
  /** Whether `take` would give anything now. */
  hasWork(): boolean;
  /** Tenants that have something queued, due or in flight. */
  tenantIds(): string[];
  readonly queued: number;
  readonly inFlight: number;
};

export type TenantPolicy = {
  /** Relative share, 1 or more. */
  readonly weight: number;
  /** Most messages of this tenant in flight in this process. */
  readonly inFlightMax: number;
};

export type Turn<Item> = {
  readonly items: readonly Item[];
  /** Places for messages that are to be found in the database. */
  readonly due: readonly { readonly tenantId: string; readonly places: number }[];
};

type Tenant<Item> = {
  readonly id: string;
  readonly lanes: readonly Fifo<Item>[];
  queued: number;
  inFlight: number;
  deficit: number;
  due: boolean;
  looking: boolean;
  /** Marked again while a look was under way: that look may have missed what the mark was for. */
  remarked: boolean;
  policy: TenantPolicy;
  listed: boolean;
};

const PRIORITIES = 3;
/** Messages one round grants a tenant of weight 1. */
const QUANTUM = 8;
/** Items that a tenant may always keep. */
const QUEUED_CROWDED_MAX = 8;
export const DEFAULT_POLICY: TenantPolicy = { weight: 1, inFlightMax: 50 };

/**
 * @param queuedPerTenantMax items of one tenant kept in memory, at least 1.
 * @param queuedMax items of all tenants, at least 1. Beyond it a tenant keeps only a few, so that whoever has little
 * still finds room.
 * @param places Most in flight of all tenants, at least 1.
 */
export function createFairQueue<Item>(
  queuedPerTenantMax: number,
  queuedMax: number,
  places: number,
): FairQueue<Item> {
  const tenants = new Map<string, Tenant<Item>>();
  /** Tenants with work, in the order of their turns. */
  const ring: Tenant<Item>[] = [];
  const totals = { queued: 0, inFlight: 0, weights: 0 };

  function tenant(id: string): Tenant<Item> {
    let known = tenants.get(id);
    if (known === undefined) {
      known = {
        id,
        lanes: Array.from({ length: PRIORITIES }, () => createFifo<Item>()),
        queued: 0,
        inFlight: 0,
        deficit: 0,
        due: false,
        looking: false,
        remarked: false,
        policy: DEFAULT_POLICY,
        listed: false,
      };
      tenants.set(id, known);
      totals.weights += known.policy.weight;
    }
    return known;
  }

  const isWaiting = (t: Tenant<Item>) => t.queued > 0 || (t.due && !t.looking);

  const roomOf = ({ inFlight, policy }: Tenant<Item>): number =>
    placesLeftTo(
      { held: inFlight, heldMax: policy.inFlightMax, weight: policy.weight },
      { places, taken: totals.inFlight, tenants: tenants.size, weights: totals.weights },
    );

  function list(t: Tenant<Item>): void {
    if (t.listed || !isWaiting(t)) return;
    t.listed = true;
    ring.push(t);
  }

  function mark(t: Tenant<Item>): void {
    t.due = true;
    t.remarked = t.looking;
    list(t);
  }

  function unlist(t: Tenant<Item>): void {
    if (!t.listed || isWaiting(t)) return;
    t.listed = false;
    ring.splice(ring.indexOf(t), 1);
  }

  /** A tenant at rest costs no memory. */
  function forgetIdle(t: Tenant<Item>): void {
    if (t.queued > 0 || t.inFlight > 0 || t.due || t.looking) return;
    tenants.delete(t.id);
    totals.weights -= t.policy.weight;
  }

  return {
    offer(tenantId, priority, item) {
      const t = tenant(tenantId);
      if (t.queued >= (totals.queued < queuedMax ? queuedPerTenantMax : QUEUED_CROWDED_MAX)) {
        mark(t);
        return false;
      }
      t.lanes[Math.min(Math.max(priority, 0), PRIORITIES - 1)]?.push(item);
      t.queued++;
      totals.queued++;
      list(t);
      return true;
    },
    markDue(tenantId) {
      mark(tenant(tenantId));
    },
    looked(tenantId, more) {
      const t = tenants.get(tenantId);
      if (t === undefined) return;
      t.looking = false;
      t.due = more || t.remarked;
      t.remarked = false;
      unlist(t);
      list(t);
      forgetIdle(t);
    },
    take(slots) {
      const items: Item[] = [];
      const due = new Map<string, { tenantId: string; places: number }>();
      /** Those who have no room now. What others take makes none, so that each is met once. */
      const passed: Tenant<Item>[] = [];
      let free = slots;
      while (free > 0) {
        const t = ring.shift();
        if (t === undefined) break;
        const room = roomOf(t);
        if (room === 0) {
          passed.push(t);
          continue;
        }
        t.listed = false;
        if (!isWaiting(t)) continue;
        const quantum = QUANTUM * t.policy.weight;
        t.deficit += quantum;
        const grant = Math.min(t.deficit, free, room);
        const taken = takeItems(t, grant, items);
        totals.queued -= taken;
        let places = taken;
        // What the memory does not hold the database may.
        if (taken < grant && t.due && !t.looking) {
          places = grant;
          const look = due.get(t.id) ?? { tenantId: t.id, places: 0 };
          look.places += grant - taken;
          due.set(t.id, look);
        }
        t.inFlight += places;
        totals.inFlight += places;
        free -= places;
        // Deficit is for those who still wait; saved up while idle, or without room, it would allow a burst.
        t.deficit = t.queued > 0 || t.due ? Math.min(t.deficit - places, quantum) : 0;
        list(t);
      }
      ring.unshift(...passed);
      for (const id of due.keys()) {
        const t = tenant(id);
        t.looking = true;
        unlist(t);
      }
      return { items, due: [...due.values()] };
    },
    release(tenantId, places = 1) {
      const t = tenants.get(tenantId);
      if (t === undefined) return;
      t.inFlight -= places;
      totals.inFlight -= places;
      list(t);
      forgetIdle(t);
    },
    setPolicy(tenantId, policy) {
      const t = tenants.get(tenantId);
      if (t === undefined) return;
      totals.weights += policy.weight - t.policy.weight;
      t.policy = policy;
      list(t);
    },
    // Whoever has no room holds a place, and of those there are no more than places.
    hasWork: () => ring.some((t) => isWaiting(t) && roomOf(t) > 0),
    tenantIds: () => [...tenants.keys()],
    get queued() {
      return totals.queued;
    },
    get inFlight() {
      return totals.inFlight;
    },
  };
}

function takeItems<Item>(t: Tenant<Item>, most: number, into: Item[]): number {
  let taken = 0;
  for (const lane of t.lanes) {
    for (; taken < most && lane.size > 0; taken++) into.push(lane.shift() as Item);
  }
  t.queued -= taken;
  return taken;
}
