import type { FailureClass } from '../sending/failure.ts';
import { orderOf, type FailoverClass, type Route } from './route.ts';
import type { SkippedAccount, SkippedReason } from './skipped-account.ts';

/** An earlier call for the same message that led to a failover. */
export type FailedTry = {
  readonly accountId: string;
  /** Whether the account will never accept the message. */
  readonly isPermanent: boolean;
  readonly class: FailureClass;
  /** For how much longer the account asked not to be called, in milliseconds. Default: it did not ask. */
  readonly waitMs?: number;
  /** Whether all accounts were tried since; it matters only because the account still asks not to be called. Default: false. */
  readonly isEarlier?: boolean;
};

/** The facts that decide which account gets a message after a refusal. */
export type FailoverFacts = {
  readonly messageId: string;
  /** The account that has refused now. */
  readonly accountId: string;
  /** The route in force now. */
  readonly route: Route;
  /** Accounts of the channel that are neither disabled nor deleted. */
  readonly usable: readonly string[];
  /** Usable accounts with a refused credential; they come after all others. Default: none. */
  readonly invalid?: readonly string[];
  /**
   * Permanent refusals of the message, temporary ones since all accounts were last tried, and earlier ones of accounts whose
   * requested wait is not over.
   */
  readonly tried: readonly FailedTry[];
};

export type Failover =
  /** An untried account is left; it is called at once. */
  | { readonly kind: 'next'; readonly accountId: string; readonly skipped: readonly SkippedAccount[] }
  /**
   * All accounts have been tried, and some may accept the message later. `waitsFor`: the failure class that determines the delay;
   * a credential failure only if the message waits for nothing else.
   */
  | {
      readonly kind: 'again';
      readonly accountId: string;
      readonly skipped: readonly SkippedAccount[];
      readonly waitsFor: FailureClass;
    }
  /** No account will accept the message. */
  | { readonly kind: 'none'; readonly skipped: readonly SkippedAccount[] };

/** Failures after which only the account is waited for, without using up a retry. */
const WAITS: readonly FailureClass[] = ['auth_or_config', 'provider_throttled'];

/**
 * Decides which account gets a refused message; undefined if the failure class permits no failover. An account that refused the
 * message permanently is not called again, and one that asked in an earlier round not to be called yet is passed over. `skipped`:
 * accounts that come before the next one; if all have been tried, each account that was not, and those that have been removed from
 * the route since.
 */
export function failOver(
  refusal: { readonly isPermanent: boolean; readonly class: FailureClass },
  facts: FailoverFacts,
): Failover | undefined {
  const { route, messageId, accountId: own, usable, invalid = [] } = facts;
  if (!route.failoverOn.includes(refusal.class as FailoverClass)) return undefined;
  const tries = [...facts.tried, { ...refusal, accountId: own }];
  const tried = new Map(tries.map((one) => [one.accountId, one.class]));
  const called = new Set(tries.flatMap((one) => (one.isEarlier === true ? [] : [one.accountId])));
  const refused = new Set(tries.flatMap((one) => (one.isPermanent ? [one.accountId] : [])));
  const order = [...orderOf(route, messageId)];
  const canSend = (id: string): boolean => usable.includes(id);
  const isInvalid = (id: string): boolean => !called.has(id) && invalid.includes(id);

  const next = order.find((id) => !tried.has(id) && canSend(id) && !isInvalid(id));
  if (next !== undefined) {
    return { kind: 'next', accountId: next, skipped: passedOver(order.slice(0, order.indexOf(next))) };
  }
  const left = order.filter((id) => !refused.has(id) && canSend(id));
  // The refusing account may no longer be in the route or usable: then it comes last, but its answer still counts.
  if (!refusal.isPermanent && !left.includes(own)) left.push(own);
  const first = left.find((id) => !isInvalid(id)) ?? left[0];
  const removed = [...called].filter((id) => id !== own && !refused.has(id) && !order.includes(id));
  const skipped = [
    ...passedOver(order.filter((id) => id !== first)),
    ...removed.map((accountId): SkippedAccount => ({ accountId, reason: 'not_in_route' })),
  ];
  if (first === undefined) return { kind: 'none', skipped };
  const classes = left.map((id) => (isInvalid(id) ? 'auth_or_config' : (tried.get(id) ?? refusal.class)));
  const waitsFor =
    classes.find((one) => !WAITS.includes(one)) ??
    classes.find((one) => one !== 'auth_or_config') ??
    classes[0] ??
    refusal.class;
  return { kind: 'again', accountId: first, skipped, waitsFor };

  function passedOver(ids: readonly string[]): SkippedAccount[] {
    return ids
      .filter((id) => !called.has(id))
      .map((accountId) => ({ accountId, reason: reasonOf(accountId) }));
  }

  function reasonOf(id: string): SkippedReason {
    if (!canSend(id)) return 'disabled';
    return isInvalid(id) ? 'invalid' : 'asked_to_wait';
  }
}

/**
 * The account that a message moves to or stays at, after a refusal or a wait. It is stored, so that the decision can be explained
 * and recomputed.
 */
export type Rerouted = {
  /** The account that sends the message next. */
  readonly accountId: string;
  /** Version of the route that decided. */
  readonly version: number;
  /** Accounts that were skipped for it. */
  readonly skipped: readonly SkippedAccount[];
  /** The route's accounts in order, if the route has no stored version. */
  readonly steps?: readonly string[];
  /** The wait that the account requested which refused the message; it holds in later rounds too. */
  readonly retryAfterMs?: number;
};

export function reroutedTo(
  { accountId, skipped }: Pick<Rerouted, 'accountId' | 'skipped'>,
  { version, steps }: Pick<Route, 'version' | 'steps'>,
): Rerouted {
  const to = { accountId, version, skipped };
  return version > 0 ? to : { ...to, steps: steps.map((step) => step.accountId) };
}

/** Returns the move that a decision causes: to another account, or none if others were only skipped. */
export function moveOf(
  { accountId, skipped }: Pick<Rerouted, 'skipped'> & { readonly accountId?: string },
  { accountId: own, route }: FailoverFacts,
): { readonly rerouted: Rerouted | null; readonly stayed: Rerouted | null } {
  if (accountId !== undefined && accountId !== own)
    return { rerouted: reroutedTo({ accountId, skipped }, route), stayed: null };
  const stays = skipped.length === 0 ? null : reroutedTo({ accountId: own, skipped }, route);
  return { rerouted: null, stayed: stays };
}
