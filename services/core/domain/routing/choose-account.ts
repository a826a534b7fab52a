import { orderOf, type Route } from './route.ts';

/** The facts of a message that decide which of a tenant's accounts may send it. */
export type RoutedMessage = {
  readonly id: string;
  readonly channel: string;
  /** The account that the sender named; no other account may be used. */
  readonly pinned: string | null;
};

type Account = { readonly id: string; readonly channel: string };

export type AccountChoice<A> = {
  readonly account: A;
  /** Version of the route that decided; null if the sender named the account. */
  readonly routeVersion: number | null;
  /** Accounts of the route that come first but cannot be used. */
  readonly skipped: readonly string[];
};

/** Stands for an account where none is called: a test message goes to the simulator of its channel. */
export const NO_ACCOUNT = '00000000-0000-0000-0000-000000000000';

/**
 * Returns the accounts that may send the message, in no particular order.
 * @param accounts the tenant's accounts that are neither disabled nor deleted.
 */
export function accountsFor<A extends Account>(
  accounts: readonly A[],
  { channel, pinned }: Pick<RoutedMessage, 'channel' | 'pinned'>,
  routes: readonly Route[],
): readonly A[] {
  const own = accounts.filter((account) => account.channel === channel);
  if (pinned !== null) return own.filter(({ id }) => id === pinned);
  const route = routeFor(channel, routes);
  if (route === undefined) return own;
  return own.filter(({ id }) => route.steps.some(({ accountId }) => accountId === id));
}

/**
 * Returns the account that sends a message; undefined if there is none.
 * @param accounts accounts that are neither disabled nor deleted, the oldest first. An account with a refused credential stays in
 * use, because its next call may succeed.
 * @param routes the tenant's routes; the oldest account sends if the channel has none.
 */
export function chooseAccount<A extends Account>(
  accounts: readonly A[],
  { id: messageId, channel, pinned }: RoutedMessage,
  routes: readonly Route[],
): AccountChoice<A> | undefined {
  const find = (id: string) => accounts.find((one) => one.id === id && one.channel === channel);
  if (pinned !== null) {
    const account = find(pinned);
    return account && { account, routeVersion: null, skipped: NONE };
  }
  const route = routeFor(channel, routes);
  if (route === undefined) {
    const account = accounts.find((one) => one.channel === channel);
    return account && { account, routeVersion: 0, skipped: NONE };
  }
  const skipped: string[] = [];
  for (const id of orderOf(route, messageId)) {
    const account = find(id);
    if (account !== undefined) return { account, routeVersion: route.version, skipped };
    skipped.push(id);
  }
  return undefined;
}

const NONE: readonly string[] = [];

export function routeFor(channel: string, routes: readonly Route[]): Route | undefined {
  return routes.find((route) => route.channel === channel);
}
