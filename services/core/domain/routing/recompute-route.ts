import { chooseAccount } from './choose-account.ts';
import type { ConsideredAccount } from './explain-route.ts';
import { decideSilence, type SilentMessage } from '../receipts/decide-silence.ts';
import { decideWaiting, type WaitingMessage } from '../sending/decide-waiting.ts';
import { failOver, type FailedTry, type Rerouted } from './failover.ts';
import type { FailureClass } from '../sending/failure.ts';
import type { Route } from './route.ts';
import type { ClosedReason, SkippedAccount, SkippedReason } from './skipped-account.ts';

/** What happened to a message at an account that did not keep it. */
export type PastTurn = { readonly accountId: string } & (
  | {
      readonly kind: 'refused';
      readonly isPermanent: boolean;
      readonly class: FailureClass;
      /** Accounts that could not be called either. */
      readonly skipped?: readonly SkippedAccount[] | null;
    }
  /** A call ended without an answer. */
  | { readonly kind: 'unanswered' }
  /** The message waited too long, and the skipped accounts could not be called either. */
  | {
      readonly kind: 'delayed';
      readonly why: Exclude<SkippedReason, 'disabled'>;
      readonly skipped: readonly SkippedAccount[];
    }
  /** The account accepted the message, and no receipt came in time. */
  | { readonly kind: 'silent'; readonly skipped: readonly SkippedAccount[] }
);

/** The stored facts about how a message found its account; its sender named none. */
export type PastRouting = {
  readonly id: string;
  readonly channel: string;
  /** In chronological order. */
  readonly turns: readonly PastTurn[];
  /**
   * Set if the message is `sent`, or has ended, through the account `to`, which had not reported in time: `from`, for which it
   * waited since, has not accepted it.
   */
  readonly cameBack?: { readonly to: string; readonly from: string } | undefined;
};

type Account = { readonly id: string; readonly channel: string };
/** An account that was considered, with the verdict. */
export type RecomputedStep = Pick<ConsideredAccount, 'accountId' | 'verdict' | 'reason'>;

export type RecomputedRoute = {
  /** The account that has the message in the end; null if there is none. */
  readonly accountId: string | null;
  /** Every account that was considered, in order. */
  readonly steps: readonly RecomputedStep[];
};

/**
 * Recomputes the route of a past message. The functions that decide about current messages choose its account, fail it over, and
 * move it after a wait. An account answers as it did then, call by call, and accepts the message once its recorded answers are
 * used up; so does an account that was not called then. A message waits where it waited then: it moves on if the route permits
 * that at all, and waits that ended in a call are unknown. The same holds for an account that did not report in time.
 * @param accounts the tenant's usable accounts, the oldest first.
 */
export function recomputeRoute(
  message: PastRouting,
  route: Route,
  accounts: readonly Account[],
): RecomputedRoute {
  const { id: messageId, channel } = message;
  const steps: RecomputedStep[] = [];
  const skip = (skipped: readonly SkippedAccount[]) =>
    steps.push(...skipped.map((one) => ({ ...one, verdict: 'skipped' }) as const));
  const choice = chooseAccount(accounts, { id: messageId, channel, pinned: null }, [route]);
  if (choice === undefined) {
    skip(route.steps.map((step) => disabled(step.accountId)));
    return { accountId: null, steps };
  }
  skip(choice.skipped.map(disabled));
  const turns = turnsOf(message);
  const usable = accounts.filter((account) => account.channel === channel).map((account) => account.id);
  let accountId: string = choice.account.id;
  let isFirst = true;
  /** Permanent refusals, and temporary ones since all accounts were last tried. */
  let tried: FailedTry[] = [];
  const leftForRate: string[] = [];
  /** An account that was only waited for is not among them. */
  const called = new Set<string>();
  /** The account that accepted the message; it keeps the message if no other account accepts it. */
  let sentBy: string | undefined;
  /** All accounts that accepted the message and did not report in time. */
  const silent = new Set<string>();
  /** The last refusal of the account that has the message. */
  let refusedAs: FailureClass | undefined;
  for (;;) {
    const turn = turns.get(accountId)?.shift();
    // A message that may have been sent stays with its account.
    if (turn === undefined || turn.kind === 'unanswered') break;
    if (turn.kind === 'silent') {
      called.add(accountId);
      const next = afterSilence(message, accountId, turn, { route, accounts, called });
      if (next === undefined) break;
      steps.push({ accountId, verdict: 'failed', reason: 'receipt_timeout' });
      sentBy = accountId;
      silent.add(accountId);
      tried.push({ accountId, isPermanent: true, class: 'unknown' });
      skip(next.skipped);
      ({ accountId } = next);
      refusedAs = undefined;
      isFirst = false;
      continue;
    }
    if (turn.kind === 'delayed') {
      const refusedBy = tried.filter((one) => one.isPermanent).map((one) => one.accountId);
      const next = afterWait(message, turn, { route, accounts, refusedBy, leftForRate });
      if (next === undefined) continue;
      steps.push({ accountId, verdict: 'skipped', reason: turn.why });
      skip(next.skipped);
      if (turn.why === 'rate_used_up') leftForRate.push(accountId);
      ({ accountId } = next);
      refusedAs = undefined;
      isFirst = false;
      continue;
    }
    const refusal = { isPermanent: turn.isPermanent, class: turn.class };
    const invalid = (turn.skipped ?? []).flatMap((one) => (one.reason === 'invalid' ? [one.accountId] : []));
    const next = failOver(refusal, { messageId, accountId, route, usable, invalid, tried });
    if (refusal.isPermanent && (next === undefined || next.kind === 'none')) {
      steps.push({ accountId, verdict: 'failed', reason: turn.class });
      if (sentBy === undefined) return { accountId, steps };
      steps.push({ accountId: sentBy, verdict: 'chosen', reason: 'sent_before' });
      return { accountId: sentBy, steps };
    }
    called.add(accountId);
    refusedAs = turn.class;
    tried.push({ ...refusal, accountId });
    if (next?.kind !== 'next') tried = tried.filter((one) => one.isPermanent);
    if (next === undefined || next.kind === 'none' || next.accountId === accountId) continue;
    steps.push({ accountId, verdict: 'failed', reason: turn.class });
    skip(next.skipped);
    ({ accountId } = next);
    refusedAs = undefined;
    isFirst = false;
  }
  const { cameBack } = message;
  if (cameBack?.from === accountId && silent.has(cameBack.to)) {
    if (refusedAs !== undefined) steps.push({ accountId, verdict: 'failed', reason: refusedAs });
    steps.push({ accountId: cameBack.to, verdict: 'chosen', reason: 'sent_before' });
    return { accountId: cameBack.to, steps };
  }
  steps.push({ accountId, verdict: 'chosen', reason: isFirst ? 'in_route' : 'next_in_route' });
  return { accountId, steps };
}

const disabled = (accountId: string): SkippedAccount => ({ accountId, reason: 'disabled' });

/** Groups the turns by account, in their order. */
function turnsOf(message: PastRouting): Map<string, PastTurn[]> {
  const turns = new Map<string, PastTurn[]>();
  for (const turn of message.turns) {
    const own = turns.get(turn.accountId) ?? [];
    turns.set(turn.accountId, own);
    own.push(turn);
  }
  return turns;
}

type Silent = {
  readonly route: Route;
  readonly accounts: readonly Account[];
  readonly called: ReadonlySet<string>;
};

/** Returns where a message goes whose account did not report on it; undefined if it stays with that account. */
function afterSilence(
  { id, channel }: PastRouting,
  accountId: string,
  { skipped }: Extract<PastTurn, { kind: 'silent' }>,
  { route, accounts, called }: Silent,
): Pick<Rerouted, 'accountId' | 'skipped'> | undefined {
  const known = new Map(skipped.map((one) => [one.accountId, one.reason]));
  const closed = closedAmong(known);
  const found = accounts.map((one) => ({
    ...one,
    status: known.get(one.id) === 'invalid' ? 'invalid' : 'active',
  }));
  const decision = decideSilence(
    { ...SILENT, id, channel, accountId, tried: [...called] },
    found,
    [route],
    closed,
  );
  return decision.kind === 'move' ? decision.rerouted : undefined;
}

/** Fixed facts of a silent message; it has been silent for longer than any route waits. */
const SILENT = {
  tenantStatus: 'active',
  isHeld: false,
  status: 'sent',
  final: false,
  test: false,
  pinned: false,
  deliveryGuarantee: 'at_least_once',
  discard: false,
  hasContent: true,
  isByCall: true,
  isTold: false,
  isAwaited: true,
  isExpired: false,
  isBusy: false,
  isBehind: false,
  silentMs: Infinity,
  ambiguous: 0,
} as const satisfies Partial<SilentMessage>;

/** Returns the skipped accounts that could not be called then. */
function closedAmong(known: ReadonlyMap<string, SkippedReason>): Map<string, ClosedReason> {
  const closed = new Map<string, ClosedReason>();
  for (const [of, reason] of known)
    if (reason === 'breaker_open' || reason === 'rate_used_up') closed.set(of, reason);
  return closed;
}

type Waited = {
  readonly route: Route;
  readonly accounts: readonly Account[];
  readonly refusedBy: readonly string[];
  readonly leftForRate: readonly string[];
};

/** Returns where a message goes that waited too long; undefined if it stays. */
function afterWait(
  { id, channel }: PastRouting,
  { accountId, why, skipped }: Extract<PastTurn, { kind: 'delayed' }>,
  { route, accounts, refusedBy, leftForRate }: Waited,
): Pick<Rerouted, 'accountId' | 'skipped'> | undefined {
  const known = new Map([...skipped, { accountId, reason: why }].map((one) => [one.accountId, one.reason]));
  const statusOf = (of: string) => (known.get(of) === 'invalid' ? 'invalid' : 'active');
  const closed = closedAmong(known);
  // Calls to an account with a refused credential are held back by its breaker.
  if (why === 'invalid') closed.set(accountId, 'breaker_open');
  const waiting = {
    ...WAITING,
    id,
    channel,
    accountId,
    accountStatus: statusOf(accountId),
    refusedBy,
    leftForRate,
  };
  const found = accounts.map((one) => ({ ...one, status: statusOf(one.id) }));
  const decision = decideWaiting(waiting, found, [route], closed);
  return decision.kind === 'assign' ? decision.rerouted : undefined;
}

/** Fixed facts of a waiting message; it has been due for longer than any route allows. */
const WAITING = {
  status: 'queued',
  tenantStatus: 'active',
  test: false,
  pinned: false,
  ambiguous: 0,
  waitedMs: Infinity,
  isDue: true,
  isExpired: false,
  isLeaseOver: false,
  suppression: null,
  brake: null,
} as const satisfies Partial<WaitingMessage>;
