import { hash } from 'node:crypto';
import { DAY_MS } from '../text/duration.ts';
import type { FailureClass } from '../sending/failure.ts';

/**
 * How the next account is chosen: `priority` uses the order of the steps, `weighted` draws them in proportion to their weights,
 * by a hash of the message.
 */
export const ROUTE_STRATEGIES = ['priority', 'weighted'] as const;
export type RouteStrategy = (typeof ROUTE_STRATEGIES)[number];

export type RouteStep = {
  readonly accountId: string;
  /** 1 to `STEP_WEIGHT_MAX`; used only by the `weighted` strategy. */
  readonly weight: number;
};

/** Failures after which another account may succeed. A fault of the recipient or the content would recur with any account. */
export const FAILOVER_CLASSES = [
  'provider_unavailable',
  'auth_or_config',
  'sender_rejected',
  'provider_throttled',
  'recipient_unavailable',
  'unknown',
] as const satisfies readonly FailureClass[];
export type FailoverClass = (typeof FAILOVER_CLASSES)[number];

/** Used if the tenant sets no classes. */
export const FAILOVER_DEFAULT: readonly FailoverClass[] = [
  'provider_unavailable',
  'auth_or_config',
  'sender_rejected',
];

/** Which accounts may send a tenant's messages of one channel, and how one of them is chosen. */
export type Route = {
  readonly channel: string;
  /** 1 and up; each change increments it. 0: no route was set, and the steps are the channel's accounts by age. */
  readonly version: number;
  readonly strategy: RouteStrategy;
  /** Contains each account once. */
  readonly steps: readonly RouteStep[];
  /** After these failures a message goes to the next account at once. */
  readonly failoverOn: readonly FailoverClass[];
  /**
   * In milliseconds, 0 to `MAX_WAIT_MS_MAX`: a message that has been due for longer while its account cannot be called moves to
   * the next one. Null or absent: it waits for its own account.
   */
  readonly maxWaitMs?: number | null;
  /**
   * In milliseconds, `RECEIPT_WAIT_MS_MIN` to `RECEIPT_WAIT_MS_MAX`: a sent message without a report of its provider by then goes
   * to the next account too, and may arrive twice. Null or absent: it stays with its own account.
   */
  readonly receiptTimeoutMs?: number | null;
};

/** A day, after which most messages have expired. */
export const MAX_WAIT_MS_MAX = DAY_MS;
/** Vendors take seconds to report: a shorter timeout would send nearly every message twice. */
export const RECEIPT_WAIT_MS_MIN = 10_000;
/** A day, after which most messages have expired. */
export const RECEIPT_WAIT_MS_MAX = DAY_MS;

export const ROUTE_STEPS_MAX = 50;
export const STEP_WEIGHT_MAX = 1_000;

type Account = { readonly id: string; readonly channel: string };

/**
 * Returns the route that applies until the tenant sets one.
 * @param accounts the oldest first.
 */
export function routeByAge(channel: string, accounts: readonly Account[]): Route {
  const own = accounts.filter((account) => account.channel === channel);
  const steps = own.map(({ id }) => ({ accountId: id, weight: 1 }));
  return { channel, version: 0, strategy: 'priority', steps, failoverOn: FAILOVER_DEFAULT };
}

/**
 * Yields the route's accounts in the order in which a message tries them. The order is always the same for one message and route
 * version: it depends only on integers and a hash.
 */
export function* orderOf(route: Route, messageId: string): Generator<string, void, undefined> {
  if (route.strategy === 'priority') {
    for (const { accountId } of route.steps) yield accountId;
    return;
  }
  const left = [...route.steps];
  for (let round = 0; left.length > 0; round += 1) {
    const [drawn] = left.splice(drawOf(left, `${messageId} ${route.version} ${round}`), 1);
    if (drawn !== undefined) yield drawn.accountId;
  }
}

/**
 * Bytes of the hash that are used: the number is so much larger than the sum of the weights that the modulo bias is negligible.
 */
const DRAWN_BYTES = 6;

/** Returns the index of a step, drawn with a probability proportional to its weight. */
function drawOf(steps: readonly RouteStep[], text: string): number {
  const total = steps.reduce((sum, { weight }) => sum + weight, 0);
  const drawn = hash('sha256', text, 'buffer').readUIntBE(0, DRAWN_BYTES) % total;
  let sum = 0;
  return steps.findIndex(({ weight }) => drawn < (sum += weight));
}
