/** Which of a tenant's accounts may send a message. */
export type Route = {
  readonly channel: string;
  /** The account that the sender named; no other will do. */
  readonly pinned: string | null;
};

type Account = { readonly id: string; readonly channel: string };

/** In place of an account where none is called: a test message goes to the simulator of its channel. */
export const NO_ACCOUNT = '00000000-0000-0000-0000-000000000000';

export function servesRoute({ id, channel }: Account, route: Route): boolean {
  return channel === route.channel && (route.pinned ?? id) === id;
}

/**
 * The account that is to send a message; undefined if there is none.
 * @param accounts Those that are neither disabled nor deleted, the oldest first. One whose credential was refused stays
 * in use: the next call may find it fixed.
 */
export function chooseAccount<A extends Account>(accounts: readonly A[], route: Route): A | undefined {
  return accounts.find((account) => servesRoute(account, route));
}
