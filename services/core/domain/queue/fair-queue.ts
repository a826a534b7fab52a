import { LRUCache } from 'lru-cache';
import { slotsLeftTo } from './fair-share.ts';
import { createFifo, type Fifo } from './fifo.ts';
import { PRIORITIES } from '../message/message-options.ts';

/**
 * Chooses which tenant is served next, by weighted deficit round robin. Each tenant has a bounded queue in memory, a mark if more
 * of its messages wait in the database, and a cap on its messages in flight, which shrinks as the process fills. A tenant's
 * backlog can neither fill the memory nor delay another tenant by more than one round; slow answers cannot occupy all slots.
 */
export type FairQueue<Item> = {
  /** Queues an item. If the tenant's queue is full, marks the tenant instead and returns false. */
  offer(tenantId: string, priority: number, item: Item): boolean;
  /** Notes that messages of this tenant wait in the database. */
  markDue(tenantId: string): void;
  /** Ends the refill that a turn requested; a tenant has one at a time. Without more the mark is cleared too. */
  refilled(tenantId: string, left: { readonly hasMore: boolean }): void;
  /** Picks up to `most` items, or slots for items from the database, and counts them as in flight. */
  take(most: number): Turn<Item>;
  /** Releases slots: a call has ended, or another worker has the message. */
  release(tenantId: string, slots?: number): void;
  /** Sets the policy of a tenant, which is remembered while the tenant has no work. */
  setPolicy(tenantId: string, policy: TenantPolicy): void;
  /** Whether `take` would return anything now. */
  hasWork(): boolean;
  /** Returns the tenants that have messages queued, due or in flight. */
  tenantIds(): string[];
  readonly queued: number;
  readonly inFlight: number;
};

export type TenantPolicy = {
  /** Relative share, 1 or more. */
  readonly weight: number;
  /** Maximum number of this tenant's messages in flight in this process. */
  readonly inFlightMax: number;
};

export type Turn<Item> = {
  readonly items: readonly Item[];
  /** Refills: slots for messages that are to be claimed from the database. */
  readonly due: readonly { readonly tenantId: string; readonly slots: number }[];
};

type Tenant<Item> = {
  readonly id: string;
  readonly byPriority: readonly Fifo<Item>[];
  queued: number;
  inFlight: number;
  deficit: number;
  due: boolean;
  refilling: boolean;
  /** Whether the tenant was marked during a refill, which may have missed the new messages. */
  remarked: boolean;
  policy: TenantPolicy;
  listed: boolean;
};

/** Messages that one round grants a tenant of weight 1. */
const QUANTUM = 8;
/** Minimum number of slots of a refill: it costs a statement, however little it finds. */
const REFILL_SLOTS = 32;
/** Items that each tenant may queue even if the memory is full. */
const QUEUED_CROWDED_MAX = 8;
/** Holds until the tenant's own policy is set. */
export const DEFAULT_POLICY: TenantPolicy = { weight: 1, inFlightMax: 50 };
/** Policies that are remembered of tenants without work. */
export const IDLE_POLICIES_MAX = 10_000;

export type FairQueueOptions = {
  /** Maximum number of one tenant's items in memory, at least 1. */
  readonly queuedPerTenantMax: number;
  /**
   * Maximum number of all tenants' items, at least 1. Beyond it each tenant may queue only a few, so that there is room for tenants
   * with few messages.
   */
  readonly queuedMax: number;
  /** Maximum number in flight of all tenants, at least 1. */
  readonly slots: number;
  /** Called when a tenant without a policy has work. */
  readonly onUnknown?: (tenantId: string) => void;
};

/** Creates an empty queue. */
export function createFairQueue<Item>({
  queuedPerTenantMax,
  queuedMax,
  slots,
  onUnknown,
}: FairQueueOptions): FairQueue<Item> {
  const tenants = new Map<string, Tenant<Item>>();
  /** Policies of tenants without work. */
  const idlePolicies = new LRUCache<string, TenantPolicy>({ max: IDLE_POLICIES_MAX });
  /** Tenants with work, in the order of their turns. */
  const ring: Tenant<Item>[] = [];
  const totals = { queued: 0, inFlight: 0, weights: 0 };

  function tenant(id: string): Tenant<Item> {
    let known = tenants.get(id);
    if (known === undefined) {
      const policy = idlePolicies.get(id);
      idlePolicies.delete(id);
      if (policy === undefined) onUnknown?.(id);
      known = {
        id,
        byPriority: Array.from(PRIORITIES, () => createFifo<Item>()),
        queued: 0,
        inFlight: 0,
        deficit: 0,
        due: false,
        refilling: false,
        remarked: false,
        policy: policy ?? DEFAULT_POLICY,
        listed: false,
      };
      tenants.set(id, known);
      totals.weights += known.policy.weight;
    }
    return known;
  }

  const isWaiting = (t: Tenant<Item>) => t.queued > 0 || (t.due && !t.refilling);

  const roomOf = ({ inFlight, policy }: Tenant<Item>): number =>
    slotsLeftTo(
      { held: inFlight, heldMax: policy.inFlightMax, weight: policy.weight },
      { slots, taken: totals.inFlight, tenants: tenants.size, weights: totals.weights },
    );

  function list(t: Tenant<Item>): void {
    if (t.listed || !isWaiting(t)) return;
    t.listed = true;
    ring.push(t);
  }

  function mark(t: Tenant<Item>): void {
    t.due = true;
    t.remarked = t.refilling;
    list(t);
  }

  function unlist(t: Tenant<Item>): void {
    if (!t.listed || isWaiting(t)) return;
    t.listed = false;
    ring.splice(ring.indexOf(t), 1);
  }

  /** Removes an idle tenant, so that it takes no memory. */
  function forgetIdle(t: Tenant<Item>): void {
    if (t.queued > 0 || t.inFlight > 0 || t.due || t.refilling) return;
    tenants.delete(t.id);
    totals.weights -= t.policy.weight;
    if (t.policy !== DEFAULT_POLICY) idlePolicies.set(t.id, t.policy);
  }

  return {
    offer(tenantId, priority, item) {
      const t = tenant(tenantId);
      if (t.queued >= (totals.queued < queuedMax ? queuedPerTenantMax : QUEUED_CROWDED_MAX)) {
        mark(t);
        return false;
      }
      t.byPriority[Math.min(Math.max(priority, 0), PRIORITIES.length - 1)]?.push(item);
      t.queued++;
      totals.queued++;
      list(t);
      return true;
    },
    markDue(tenantId) {
      mark(tenant(tenantId));
    },
    refilled(tenantId, { hasMore }) {
      const t = tenants.get(tenantId);
      if (t === undefined) return;
      t.refilling = false;
      t.due = hasMore || t.remarked;
      t.remarked = false;
      unlist(t);
      list(t);
      forgetIdle(t);
    },
    take(most) {
      const items: Item[] = [];
      const due = new Map<string, { tenantId: string; slots: number }>();
      /** Tenants without free slots now. Grants to other tenants do not free any, so each tenant is visited once. */
      const passed: Tenant<Item>[] = [];
      let free = most;
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
        // The tenant's last refill was larger than its turn.
        if (t.deficit <= 0) {
          list(t);
          continue;
        }
        const grant = Math.min(t.deficit, free, room);
        const taken = takeItems(t, grant, items);
        totals.queued -= taken;
        let granted = taken;
        // Messages that are not in memory may be in the database.
        if (taken < grant && t.due && !t.refilling) {
          granted = Math.min(Math.max(grant, REFILL_SLOTS), free, room);
          const refill = due.get(t.id) ?? { tenantId: t.id, slots: 0 };
          refill.slots += granted - taken;
          due.set(t.id, refill);
        }
        t.inFlight += granted;
        totals.inFlight += granted;
        free -= granted;
        // Only waiting tenants keep a deficit: one saved up while idle, or without free slots, would allow a burst.
        t.deficit = t.queued > 0 || t.due ? Math.min(t.deficit - granted, quantum) : 0;
        list(t);
      }
      ring.unshift(...passed);
      for (const id of due.keys()) {
        const t = tenant(id);
        t.refilling = true;
        unlist(t);
      }
      return { items, due: [...due.values()] };
    },
    release(tenantId, slots = 1) {
      const t = tenants.get(tenantId);
      if (t === undefined) return;
      t.inFlight -= slots;
      totals.inFlight -= slots;
      forgetIdle(t);
    },
    setPolicy(tenantId, policy) {
      const t = tenants.get(tenantId);
      if (t === undefined) {
        idlePolicies.set(tenantId, policy);
        return;
      }
      totals.weights += policy.weight - t.policy.weight;
      t.policy = policy;
    },
    // The scan is bounded: a tenant without free slots holds a slot, so there are no more such tenants than slots.
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
  for (const fifo of t.byPriority) {
    for (; taken < most && fifo.size > 0; taken++) into.push(fifo.shift() as Item);
  }
  t.queued -= taken;
  return taken;
}
