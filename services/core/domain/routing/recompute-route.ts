import { chooseAccount } from './choose-account.ts';
import type { ConsideredAccount } from './explain-route.ts';
import { failOver, type FailedTry } from './failover.ts';
import type { FailureClass } from '../sending/failure.ts';
import type { Route } from './route.ts';
import type { SkippedAccount, SkippedReason } from './skipped-account.ts';
import { afterDelay, afterSilence, type PastMove, type UsableAccount } from './past-moves.ts';
import type { PastRouting, PastTurn } from './past-routing.ts';

/** An account that was considered, with the verdict. */
export type RecomputedStep = Pick<ConsideredAccount, 'accountId' | 'verdict' | 'reason'>;

export type RecomputedRoute = {
  /** The account that has the message in the end; null if there is none. */
  readonly accountId: string | null;
  /** Every account that was considered, in order. */
  readonly steps: readonly RecomputedStep[];
};

/** How far the recomputation of a route has come. */
type Progress = {
  readonly steps: RecomputedStep[];
  /** The account that has the message. */
  accountId: string;
  hasMoved: boolean;
  /** The last refusal of the account that has the message. */
  refusedAs: FailureClass | undefined;
  /** Permanent refusals, and temporary ones since all accounts were last tried. */
  tried: FailedTry[];
  /** Accounts that the message left because their rate was used up. */
  readonly leftForRate: string[];
  /** An account that was only waited for is not among them. */
  readonly called: Set<string>;
  /** The accounts that accepted the message and did not report in time, in this order. */
  readonly silent: string[];
};

type Turn<Kind extends PastTurn['kind']> = Extract<PastTurn, { kind: Kind }>;

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
  accounts: readonly UsableAccount[],
): RecomputedRoute {
  const { id, channel } = message;
  const choice = chooseAccount(accounts, { id, channel, pinned: null }, [route]);
  if (choice === undefined)
    return { accountId: null, steps: skippedSteps(route.steps.map((step) => disabled(step.accountId))) };
  const progress: Progress = {
    steps: skippedSteps(choice.skipped.map(disabled)),
    accountId: choice.account.id,
    hasMoved: false,
    refusedAs: undefined,
    tried: [],
    leftForRate: [],
    called: new Set(),
    silent: [],
  };
  const turns = turnsOf(message);
  for (;;) {
    const turn = turns.get(progress.accountId)?.shift();
    // A message that may have been sent stays with its account.
    if (turn === undefined || turn.kind === 'unanswered') return kept(message, progress);
    if (turn.kind === 'silent') {
      if (!leaveSilent(progress, turn, message, { route, accounts })) return kept(message, progress);
    } else if (turn.kind === 'delayed') leaveDelayed(progress, turn, message, { route, accounts });
    else if (!leaveRefused(progress, turn, message, { route, accounts })) return refused(progress, turn);
  }
}

type Choices = { readonly route: Route; readonly accounts: readonly UsableAccount[] };

/** Moves a message whose account did not report in time. Returns false if the message stays. */
function leaveSilent(
  progress: Progress,
  turn: Turn<'silent'>,
  message: PastRouting,
  choices: Choices,
): boolean {
  const { accountId, called } = progress;
  called.add(accountId);
  const next = afterSilence(message, accountId, turn, { ...choices, called });
  if (next === undefined) return false;
  progress.silent.push(accountId);
  progress.tried.push({ accountId, isPermanent: true, class: 'unknown' });
  move(progress, next, { verdict: 'failed', reason: 'receipt_timeout' });
  return true;
}

/** Moves a message that waited too long, if the route permits that. */
function leaveDelayed(
  progress: Progress,
  turn: Turn<'delayed'>,
  message: PastRouting,
  choices: Choices,
): void {
  const { accountId, tried, leftForRate } = progress;
  const refusedBy = tried.filter((one) => one.isPermanent).map((one) => one.accountId);
  const next = afterDelay(message, turn, { ...choices, refusedBy, leftForRate });
  if (next === undefined) return;
  if (turn.why === 'rate_used_up') leftForRate.push(accountId);
  move(progress, next, { verdict: 'skipped', reason: turn.why });
}

/**
 * Moves a refused message to the next account, or leaves it where it is to be tried again. Returns false if the refusal is permanent
 * and there is no other account.
 */
function leaveRefused(
  progress: Progress,
  turn: Turn<'refused'>,
  { id: messageId, channel }: PastRouting,
  { route, accounts }: Choices,
): boolean {
  const { accountId, tried } = progress;
  const refusal = { isPermanent: turn.isPermanent, class: turn.class };
  const usable = accounts.filter((one) => one.channel === channel).map((one) => one.id);
  const earlier = passedOver(turn, 'asked_to_wait').map(askedToWait);
  const next = failOver(refusal, {
    messageId,
    accountId,
    route,
    usable,
    invalid: passedOver(turn, 'invalid'),
    tried: [...earlier, ...tried],
  });
  if (refusal.isPermanent && (next === undefined || next.kind === 'none')) return false;
  progress.called.add(accountId);
  progress.refusedAs = turn.class;
  progress.tried.push({ ...refusal, accountId });
  // All accounts were tried: the next round begins.
  if (next?.kind !== 'next') progress.tried = progress.tried.filter((one) => one.isPermanent);
  if (next === undefined || next.kind === 'none' || next.accountId === accountId) return true;
  move(progress, next, { verdict: 'failed', reason: turn.class });
  return true;
}

/** @param left why the message leaves its account. */
function move(
  progress: Progress,
  { accountId, skipped }: PastMove,
  left: Pick<RecomputedStep, 'verdict' | 'reason'>,
): void {
  progress.steps.push({ accountId: progress.accountId, ...left }, ...skippedSteps(skipped));
  progress.accountId = accountId;
  progress.hasMoved = true;
  progress.refusedAs = undefined;
}

/** Returns the route of a message that its last account refused for good: an account that had accepted it keeps it. */
function refused({ accountId, steps, silent }: Progress, turn: Turn<'refused'>): RecomputedRoute {
  const failed: RecomputedStep = { accountId, verdict: 'failed', reason: turn.class };
  const sentBy = silent.at(-1);
  return sentBy === undefined
    ? { accountId, steps: [...steps, failed] }
    : { accountId: sentBy, steps: [...steps, failed, sentBefore(sentBy)] };
}

/** Returns the route of a message that its account keeps, or that came back to the account that had accepted it. */
function kept(
  { cameBack }: PastRouting,
  { accountId, steps, silent, refusedAs, hasMoved }: Progress,
): RecomputedRoute {
  if (cameBack?.from === accountId && silent.includes(cameBack.to)) {
    const failed: RecomputedStep[] =
      refusedAs === undefined ? [] : [{ accountId, verdict: 'failed', reason: refusedAs }];
    return { accountId: cameBack.to, steps: [...steps, ...failed, sentBefore(cameBack.to)] };
  }
  const reason = hasMoved ? 'next_in_route' : 'in_route';
  return { accountId, steps: [...steps, { accountId, verdict: 'chosen', reason }] };
}

const sentBefore = (accountId: string): RecomputedStep => ({
  accountId,
  verdict: 'chosen',
  reason: 'sent_before',
});

const skippedSteps = (skipped: readonly SkippedAccount[]): RecomputedStep[] =>
  skipped.map((one) => ({ ...one, verdict: 'skipped' }));

/** The accounts that were passed over for this reason when the message was refused. */
const passedOver = ({ skipped }: Turn<'refused'>, as: SkippedReason): string[] =>
  (skipped ?? []).flatMap(({ accountId, reason }) => (reason === as ? [accountId] : []));

/** Only that the account asked to wait is known, not how it refused the message in that earlier round. */
const askedToWait = (accountId: string): FailedTry => ({
  accountId,
  isPermanent: false,
  class: 'unknown',
  isEarlier: true,
});

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
