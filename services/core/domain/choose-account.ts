import { orderOf, type Route } from './route.ts';

/** What decides which of a tenant's accounts may send a message. */
export type RoutedMessage = {
  readonly id: string;
  readonly channel: string;
  /** The account that the sender named; no other will do. */
  readonly pinned: string | null;
};

type Account = { readonly id: string; readonly channel: string };

export type AccountChoice<A> = {
  readonly account: A;
  /** Of the route that decided; null where the sender named the account. */
  readonly routeVersion: number | null;
  /** Accounts of the route that would have gone first and cannot be used. */
  readonly skipped: readonly string[];
};

/** In place of an account where none is called: a test message goes to the simulator of its channel. */
export const NO_ACCOUNT = '00000000-0000-0000-0000-000000000000';

/**
 * The accounts that may send the message, in no order that counts.
 * @param accounts The tenant's, neither disabled nor deleted.
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
 * The account that is to send a message; undefined if there is none.
 * @param accounts Those that are neither disabled nor deleted, the oldest first. One whose credential was refused stays
 * in use: the next call may find it fixed.
 * @param routes Those that the tenant has set; where none is for the channel, the oldest account sends.
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
