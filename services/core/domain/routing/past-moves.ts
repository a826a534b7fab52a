import { decideSilence, type SilentMessage } from '../receipts/decide-silence.ts';
import { decideWaiting, type WaitingMessage } from '../sending/decide-waiting.ts';
import type { Rerouted } from './failover.ts';
import type { Route } from './route.ts';
import type { ClosedReason, SkippedReason } from './skipped-account.ts';
import type { PastRouting, PastTurn } from './past-routing.ts';

export type UsableAccount = { readonly id: string; readonly channel: string };

export type PastMove = Pick<Rerouted, 'accountId' | 'skipped'>;

type Silence = {
  readonly route: Route;
  readonly accounts: readonly UsableAccount[];
  readonly called: ReadonlySet<string>;
};

/** Returns where a message goes whose account did not report on it; undefined if it stays with that account. */
export function afterSilence(
  { id, channel }: PastRouting,
  accountId: string,
  { skipped }: Extract<PastTurn, { kind: 'silent' }>,
  { route, accounts, called }: Silence,
): PastMove | undefined {
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

type Delay = {
  readonly route: Route;
  readonly accounts: readonly UsableAccount[];
  readonly refusedBy: readonly string[];
  readonly leftForRate: readonly string[];
};

/** Returns where a message goes that waited too long; undefined if it stays. */
export function afterDelay(
  { id, channel }: PastRouting,
  { accountId, why, skipped }: Extract<PastTurn, { kind: 'delayed' }>,
  { route, accounts, refusedBy, leftForRate }: Delay,
): PastMove | undefined {
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
