import { chooseAccount } from './choose-account.ts';
import type { ConsideredAccount } from './explain-route.ts';
import { failOver, type FailedTry } from './failover.ts';
import type { FailureClass } from './failure.ts';
import type { Route } from './route.ts';
import type { SkippedAccount } from './skipped-account.ts';

/** How a call for a message ended that was not accepted; undefined `class`: no answer came. */
export type PastAnswer = {
  readonly accountId: string;
  readonly isPermanent: boolean;
  readonly class: FailureClass | undefined;
};

/** What is stored of how a message found its account; its sender named none. */
export type RoutedMessage = {
  readonly id: string;
  readonly channel: string;
  /** In the order of the calls. */
  readonly answers: readonly PastAnswer[];
};

type Account = { readonly id: string; readonly channel: string };
/** An account that was considered, and what is said of it. */
export type ReplayedStep = Pick<ConsideredAccount, 'accountId' | 'verdict' | 'reason'>;

export type Replayed = {
  /** The account that has the message in the end; null where there is none. */
  readonly accountId: string | null;
  /** Every account that was considered, in order. */
  readonly steps: readonly ReplayedStep[];
};

/**
 * Sends a message of the past once more by a route: it is chosen and failed over by the functions that do it for messages
 * of today. An account answers as it answered then, call by call, and takes the message once it has no more to say; so does
 * one that was not called then. How long a message waited, and for what, is not replayed.
 * @param accounts The tenant's that can be used, the oldest first.
 */
export function replayRoute(message: RoutedMessage, route: Route, accounts: readonly Account[]): Replayed {
  const { id: messageId, channel } = message;
  const steps: ReplayedStep[] = [];
  const skip = (skipped: readonly SkippedAccount[]) =>
    steps.push(...skipped.map((one) => ({ ...one, verdict: 'skipped' }) as const));
  const choice = chooseAccount(accounts, { id: messageId, channel, pinned: null }, [route]);
  if (choice === undefined) {
    skip(route.steps.map((step) => disabled(step.accountId)));
    return { accountId: null, steps };
  }
  skip(choice.skipped.map(disabled));
  const said = answersOf(message);
  const usable = accounts.filter((account) => account.channel === channel).map((account) => account.id);
  let accountId: string = choice.account.id;
  /** Permanent refusals, and the others since all accounts were tried last. */
  let tried: FailedTry[] = [];
  for (;;) {
    const answer = said.get(accountId)?.shift();
    // What may have gone out stays with its account.
    if (answer?.class === undefined) break;
    const refusal = { isPermanent: answer.isPermanent, class: answer.class };
    const next = failOver(refusal, { messageId, accountId, route, usable, tried });
    if (refusal.isPermanent && (next === undefined || next.kind === 'none')) {
      steps.push({ accountId, verdict: 'failed', reason: answer.class });
      return { accountId, steps };
    }
    tried.push({ ...refusal, accountId });
    if (next?.kind !== 'next') tried = tried.filter((one) => one.isPermanent);
    if (next === undefined || next.kind === 'none') continue;
    skip(next.skipped);
    if (next.accountId !== accountId) steps.push({ accountId, verdict: 'failed', reason: answer.class });
    accountId = next.accountId;
  }
  const isFirst = steps.every(({ verdict }) => verdict !== 'failed');
  steps.push({ accountId, verdict: 'chosen', reason: isFirst ? 'in_route' : 'next_in_route' });
  return { accountId, steps };
}

const disabled = (accountId: string): SkippedAccount => ({ accountId, reason: 'disabled' });

/** Of each account, what it said in turn. */
function answersOf({ answers }: RoutedMessage): Map<string, PastAnswer[]> {
  const said = new Map<string, PastAnswer[]>();
  for (const answer of answers) {
    const own = said.get(answer.accountId) ?? [];
    said.set(answer.accountId, own);
    own.push(answer);
  }
  return said;
}
