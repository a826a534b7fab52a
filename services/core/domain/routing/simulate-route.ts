import type { PastRouting } from './past-routing.ts';
import { recomputeRoute, type RecomputedStep } from './recompute-route.ts';
import type { Route } from './route.ts';
import { deliveryRateOf } from '../tenant/usage-query.ts';

/** A past message, the account that had it in the end, and its state. */
export type PastMessage = PastRouting & { readonly accountId: string; readonly status: string };

/** A message that would have had another account, or none. */
export type MovedMessage = {
  readonly id: string;
  readonly before: string;
  readonly after: string | null;
  readonly steps: readonly RecomputedStep[];
};

export type Simulation = {
  readonly considered: number;
  readonly moved: number;
  readonly unroutable: number;
  readonly byAccount: readonly {
    readonly accountId: string;
    readonly before: number;
    readonly after: number;
    /** Rate over the messages that the account had: see `deliveryRateOf`. */
    readonly deliveryRate: number | null;
  }[];
  /** How many messages would have moved from which account to which; most first. */
  readonly moves: readonly { readonly from: string; readonly to: string; readonly messages: number }[];
  /** Which accounts were skipped or left, why, and for how many messages; most first. */
  readonly excluded: readonly {
    readonly accountId: string;
    readonly reason: RecomputedStep['reason'];
    readonly messages: number;
  }[];
  /** The first messages that moved or found no account. */
  readonly samples: readonly MovedMessage[];
};

export type Simulator = {
  readonly add: (message: PastMessage) => void;
  /** Returns the totals of all added messages. */
  readonly result: () => Simulation;
};

export const SIMULATION_SAMPLES_MAX = 20;

type Account = { readonly id: string; readonly channel: string };
type Measures = { before: number; after: number; delivered: number; undelivered: number };

/**
 * Creates a simulator that recomputes the routes of messages of one channel and adds up the results.
 * @param accounts the tenant's usable accounts, the oldest first.
 */
export function createSimulator(route: Route, accounts: readonly Account[]): Simulator {
  const byAccount = new Map<string, Measures>();
  const moves = createTally<{ readonly from: string; readonly to: string }>();
  const excluded = createTally<Pick<RecomputedStep, 'accountId' | 'reason'>>();
  const samples: MovedMessage[] = [];
  let [considered, moved, unroutable] = [0, 0, 0];
  for (const { accountId } of route.steps) measuresOf(accountId);

  function measuresOf(accountId: string): Measures {
    const found = byAccount.get(accountId) ?? { before: 0, after: 0, delivered: 0, undelivered: 0 };
    byAccount.set(accountId, found);
    return found;
  }

  return {
    add(message) {
      const { id, accountId: before, status } = message;
      const { accountId: after, steps } = recomputeRoute(message, route, accounts);
      const had = measuresOf(before);
      considered += 1;
      had.before += 1;
      if (status === 'delivered' || status === 'undelivered') had[status] += 1;
      if (after === null) unroutable += 1;
      else measuresOf(after).after += 1;
      const left = steps.filter(({ verdict }) => verdict !== 'chosen');
      // Counts an account and reason once per message, even if the message came to the account repeatedly.
      for (const { accountId, reason } of new Map(left.map((one) => [nameOf(one), one])).values())
        excluded.count({ accountId, reason });
      if (after === before) return;
      if (after !== null) {
        moved += 1;
        moves.count({ from: before, to: after });
      }
      if (samples.length < SIMULATION_SAMPLES_MAX) samples.push({ id, before, after, steps });
    },
    result: () => ({
      considered,
      moved,
      unroutable,
      byAccount: [...byAccount].map(([accountId, { before, after, ...receipts }]) => ({
        accountId,
        before,
        after,
        deliveryRate: deliveryRateOf(receipts),
      })),
      moves: moves.counts(),
      excluded: excluded.counts(),
      samples,
    }),
  };
}

const nameOf = ({ accountId, reason }: RecomputedStep): string => `${accountId} ${reason}`;

/** Creates a counter of messages by kind that lists the most frequent kind first. */
function createTally<Kind extends object>() {
  const found = new Map<string, { readonly kind: Kind; messages: number }>();
  return {
    count(kind: Kind): void {
      const name = JSON.stringify(kind);
      const own = found.get(name) ?? { kind, messages: 0 };
      found.set(name, own);
      own.messages += 1;
    },
    counts: () =>
      [...found.values()]
        .toSorted((one, other) => other.messages - one.messages)
        .map(({ kind, messages }) => ({ ...kind, messages })),
  };
}
