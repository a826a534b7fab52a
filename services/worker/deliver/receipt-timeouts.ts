import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';
import type { Route } from '#core/domain/routing/route.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { askUntilAnswered, type AskUntilAnsweredDeps } from '../ask-until-answered.ts';

export type ReceiptTimeoutsDeps = AskUntilAnsweredDeps & {
  readonly store: Pick<WorkerStore, 'routesOf'>;
  readonly monotonicMs: MonotonicClock;
};

export type ReceiptTimeouts = {
  /**
   * Returns how long a message that its account has just accepted waits for a receipt before another account sends it too;
   * undefined if no other one does. It returns no promise if the result is known, as for nearly all messages.
   * @throws the database's error, once `signal` has fired.
   */
  of(message: ClaimedMessage): number | undefined | Promise<number | undefined>;
  /** Drops the tenant's cached routes after a change. */
  forget(tenantId: string): void;
};

type Timeouts = readonly Pick<Route, 'channel' | 'steps' | 'receiptTimeoutMs'>[];

const TENANTS_MAX = 20_000;
const TENANTS_AT_ONCE = 256;
/** Age limit of cached routes, for the case that the notice of a change was lost. */
const KNOWN_MS = 30_000;
const NONE: Timeouts = [];

/** Caches the routes' receipt timeouts; each tenant's routes are read at most once in half a minute. */
export function createReceiptTimeouts({ store, monotonicMs, ...deps }: ReceiptTimeoutsDeps): ReceiptTimeouts {
  const known = new LRUCache<string, Timeouts>({
    max: TENANTS_MAX,
    ttl: KNOWN_MS,
    ttlResolution: 0,
    perf: { now: monotonicMs },
  });
  const loads = createMicroBatch<string, Timeouts>({
    itemsMax: TENANTS_AT_ONCE,
    flushesMax: 2,
    queuedMax: Number.POSITIVE_INFINITY,
    async flush(tenantIds) {
      const found = await askUntilAnswered(() => store.routesOf(tenantIds), tenantIds.length, deps);
      const routes = Map.groupBy(found, ({ tenantId }) => tenantId);
      return tenantIds.map((tenantId) => {
        const own = (routes.get(tenantId) ?? NONE).filter(({ receiptTimeoutMs }) => receiptTimeoutMs != null);
        const timeouts = own.length === 0 ? NONE : own;
        known.set(tenantId, timeouts);
        return timeouts;
      });
    },
  });

  return {
    of(message) {
      if (!mayWait(message)) return undefined;
      const timeouts = known.get(message.tenantId);
      return timeouts === undefined
        ? loads.add(message.tenantId).then((loaded) => timeoutOf(message, loaded))
        : timeoutOf(message, timeouts);
    },
    forget: (tenantId) => void known.delete(tenantId),
  };
}

/** Whether another account may send the message and has its content; if not, its route need not be read. */
function mayWait({
  accountId,
  pinned,
  discard,
  test,
  deliveryGuarantee,
  ambiguous,
}: ClaimedMessage): boolean {
  // Tests break this (mutant: once-waiting): an at-most-once message is sent through one account only.
  return (
    accountId !== null &&
    !test &&
    !pinned &&
    !discard &&
    deliveryGuarantee === 'at_least_once' &&
    ambiguous === 0
  );
}

/** Returns the route's timeout; undefined if it has none, or no account that has not accepted the message yet. */
function timeoutOf(
  { channel, accountId, sentAccountId }: ClaimedMessage,
  routes: Timeouts,
): number | undefined {
  const route = routes.find((one) => one.channel === channel);
  const hasOther =
    route?.steps.some((step) => step.accountId !== accountId && step.accountId !== sentAccountId) === true;
  return hasOther ? (route.receiptTimeoutMs ?? undefined) : undefined;
}
