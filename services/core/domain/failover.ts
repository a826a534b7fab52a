import type { FailureClass } from './failure.ts';
import { orderOf, type FailoverClass, type Route } from './route.ts';
import type { SkippedAccount } from './skipped-account.ts';

/** An earlier call for the same message that another account was to make up for. */
export type FailedTry = {
  readonly accountId: string;
  /** The account will never take the message. */
  readonly isPermanent: boolean;
  readonly class: FailureClass;
};

/** What decides through which account a message goes next, after a refusal by one of them. */
export type FailoverFacts = {
  readonly messageId: string;
  /** The account that has refused now. */
  readonly accountId: string;
  /** In force now. */
  readonly route: Route;
  /** Accounts of the channel that are neither disabled nor deleted. */
  readonly usable: readonly string[];
  /** Those of them whose credential is refused: they come after all others. Default: none. */
  readonly invalid?: readonly string[];
  /** Permanent refusals of the message, and the others since all accounts were tried last. */
  readonly tried: readonly FailedTry[];
};

export type Failover =
  /** An account is left that has not been tried: it is called at once. */
  | { readonly kind: 'next'; readonly accountId: string; readonly skipped: readonly SkippedAccount[] }
  /**
   * All have been tried, and some may take the message later. `waitsFor`: the failure that says when; of a credential only
   * where nothing else is waited for.
   */
  | {
      readonly kind: 'again';
      readonly accountId: string;
      readonly skipped: readonly SkippedAccount[];
      readonly waitsFor: FailureClass;
    }
  /** None will take it. */
  | { readonly kind: 'none'; readonly skipped: readonly SkippedAccount[] };

/** Failures after which the account alone is waited for, which uses no retry. */
const WAITS: readonly FailureClass[] = ['auth_or_config', 'provider_throttled'];

/**
 * Decides where a message goes that an account has refused; undefined where the failure is no reason to go elsewhere.
 * An account that refused it for good is not asked again. `skipped`: accounts that would have gone before the next one; where
 * all have been tried, each that was not, and those that have been taken out of the route since.
 */
export function failOver(
  refusal: { readonly isPermanent: boolean; readonly class: FailureClass },
  facts: FailoverFacts,
): Failover | undefined {
  const { route, messageId, accountId: own, usable, invalid = [] } = facts;
  if (!route.failoverOn.includes(refusal.class as FailoverClass)) return undefined;
  const tries = [...facts.tried, { ...refusal, accountId: own }];
  const tried = new Map(tries.map((one) => [one.accountId, one.class]));
  const refused = new Set(tries.flatMap((one) => (one.isPermanent ? [one.accountId] : [])));
  const order = [...orderOf(route, messageId)];
  const canSend = (id: string): boolean => usable.includes(id);
  const isInvalid = (id: string): boolean => !tried.has(id) && invalid.includes(id);

  const next = order.find((id) => !tried.has(id) && canSend(id) && !isInvalid(id));
  if (next !== undefined) {
    return { kind: 'next', accountId: next, skipped: passedOver(order.slice(0, order.indexOf(next))) };
  }
  // The account itself need not be in the route any more, nor usable: what it said still counts.
  const left = order.filter((id) => !refused.has(id) && (canSend(id) || id === own));
  if (!refusal.isPermanent && !left.includes(own)) left.push(own);
  const first = left.find((id) => !isInvalid(id)) ?? left[0];
  const removed = [...tried.keys()].filter((id) => id !== own && !refused.has(id) && !order.includes(id));
  const skipped = [
    ...passedOver(order.filter((id) => id !== first)),
    ...removed.map((accountId): SkippedAccount => ({ accountId, reason: 'not_in_route' })),
  ];
  if (first === undefined) return { kind: 'none', skipped };
  const classes = left.map((id) => (isInvalid(id) ? 'auth_or_config' : (tried.get(id) ?? refusal.class)));
  const waitsFor = classes.find((one) => !WAITS.includes(one)) ?? classes[0] ?? refusal.class;
  return { kind: 'again', accountId: first, skipped, waitsFor };

  function passedOver(ids: readonly string[]): SkippedAccount[] {
    return ids
      .filter((id) => !tried.has(id))
      .map((accountId) => ({ accountId, reason: canSend(accountId) ? 'invalid' : 'disabled' }));
  }
}

/** Where a message goes on to, after a refusal or a wait, or stays: stored, so that it can be explained and decided again. */
export type Rerouted = {
  /** The account that sends it next. */
  readonly accountId: string;
  /** Of the route that decided. */
  readonly version: number;
  /** Accounts that were passed over for it. */
  readonly skipped: readonly SkippedAccount[];
  /** The route's accounts in their order, where it has no version to find them by. */
  readonly steps?: readonly string[];
};

export function reroutedTo(
  { accountId, skipped }: Pick<Rerouted, 'accountId' | 'skipped'>,
  { version, steps }: Pick<Route, 'version' | 'steps'>,
): Rerouted {
  const to = { accountId, version, skipped };
  return version > 0 ? to : { ...to, steps: steps.map((step) => step.accountId) };
}

/** Where a decision puts the message: with another account, or with its own where others were passed over. */
export function placeOf(
  { accountId, skipped }: Pick<Rerouted, 'skipped'> & { readonly accountId?: string },
  { accountId: own, route }: FailoverFacts,
): { readonly rerouted: Rerouted | null; readonly stayed: Rerouted | null } {
  if (accountId !== undefined && accountId !== own)
    return { rerouted: reroutedTo({ accountId, skipped }, route), stayed: null };
  const stays = skipped.length === 0 ? null : reroutedTo({ accountId: own, skipped }, route);
  return { rerouted: null, stayed: stays };
}
