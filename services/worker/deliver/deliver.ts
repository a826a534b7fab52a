import type { OutboundMessage } from '#core/domain/message/content.ts';
import { ADAPTER_FAULT } from '#core/domain/sending/failure.ts';
import type { AttemptOutcome, Outcome } from '#core/domain/sending/outcome.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { AnyProvider, ProviderContext } from '#providers/provider.ts';
import type { ProviderCall } from '#providers/context.ts';
import { contentRefusal } from '#providers/content-limits.ts';
import { simulatorFor } from '#providers/registry.ts';
import { withSpan, type SpanOptions } from '#core/platform/telemetry/telemetry.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';
import type { Breakers } from '../accounts/breakers.ts';
import { expectsReceipts } from '../receipts/expects-receipts.ts';
import { askBeforeRepeat } from './ask-before-repeat.ts';
import { callDeadlineMs } from './call-deadline.ts';
import type { Contents } from './contents.ts';
import { findAccount } from './find-account.ts';
import { outcomeIfUnrepeatable } from './key-known-until.ts';
import { noteCall } from './note-call.ts';
import { toOutbound } from './to-outbound.ts';

export type DeliverDeps = {
  readonly accounts: Accounts;
  readonly contents: Contents;
  readonly breakers: Breakers;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  /** Returns where the vendor can report on messages of the account; undefined if no receipts are requested. */
  readonly receiptUrlOf: (account: Account) => string | undefined;
  /** Returns where the recipient of a message can unsubscribe; undefined if the recipient cannot. */
  readonly unsubscribeUrlOf: (message: ClaimedMessage) => string | undefined;
  /** Total time of one provider call in milliseconds, unless the provider asks for more. */
  readonly deadlineMs: number;
  /** Length of a claim's lease in milliseconds. */
  readonly leaseMs: number;
  /** Called when an adapter throws, which is a bug; the attempt is then ambiguous. */
  readonly onAdapterFault: (provider: string, error: unknown, message: ClaimedMessage) => void;
  /** True once the process is shutting down: no new call begins. */
  readonly isStopping: () => boolean;
};

export type Delivered = {
  readonly outcome: AttemptOutcome;
  readonly provider: AnyProvider | undefined;
  /** Whether a receipt is expected for the message. Default false. */
  readonly receiptsExpected?: boolean;
  /** When the provider call began, in ms since the epoch; undefined if none was made. */
  readonly calledAt?: number;
  /** Duration of the provider call alone; undefined if none was made. */
  readonly callMs?: number;
};

/** Returns a function that makes the one provider call of a claimed attempt. It never throws: every way to end is an outcome. */
export function createDeliver(deps: DeliverDeps): (message: ClaimedMessage) => Promise<Delivered> {
  return (message) => deliver(message, deps);
}

/** This frame and the adapter's own are all that stays in memory while the provider's answer is awaited. */
async function deliver(message: ClaimedMessage, deps: DeliverDeps): Promise<Delivered> {
  const ready = await prepare(message, deps);
  if ('outcome' in ready) return ready;
  const { account, calledAs, isProbe, receiptUrl, content, release } = ready;
  const unsubscribeUrl = deps.unsubscribeUrlOf(message);
  const { provider } = account;
  const calledAt = Date.now();
  const started = performance.now();
  let outcome: Outcome;
  try {
    outcome = await withSpan(`send ${provider.id}`, CLIENT_SPAN, () =>
      call(toOutbound(message, content, { receiptUrl, unsubscribeUrl }), message, account, deps),
    );
  } catch (error) {
    deps.onAdapterFault(provider.id, error, message);
    outcome = { kind: 'ambiguous', failure: { class: 'unknown', code: ADAPTER_FAULT } };
  } finally {
    release();
  }
  const callMs = performance.now() - started;
  if (calledAs !== null) noteCall({ accountId: calledAs, isProbe }, message.provider, outcome, deps.breakers);
  const receiptsExpected = expectsReceipts(account, receiptUrl, outcome);
  return { outcome, provider, receiptsExpected, calledAt, callMs };
}

const CLIENT_SPAN: SpanOptions = { kind: 'client' };

type Ready = {
  readonly account: Account;
  /** The account whose breaker counts the call; null for a simulator. */
  readonly calledAs: string | null;
  /** Whether the breaker admitted the call as a probe. */
  readonly isProbe: boolean;
  readonly receiptUrl: string | undefined;
  readonly content: unknown;
  readonly release: () => void;
};

/** Returns all that a call needs, or the outcome if no call is made. After it returns, the account's breaker counts the call. */
async function prepare(message: ClaimedMessage, deps: DeliverDeps): Promise<Ready | Delivered> {
  if (deps.isStopping()) return { outcome: SHUTDOWN, provider: undefined };
  const found = await findAccount(message, deps.accounts);
  if ('outcome' in found) return { outcome: found.outcome, provider: undefined };
  const { account } = found;
  const { provider } = account;
  const calledAs = calledAccount(message, account);
  // Checked before the content is fetched, because the content may be large.
  if (calledAs !== null && isBlocked(message, calledAs, deps.breakers))
    return { outcome: BREAKER_OPEN, provider };
  const receiptUrl = deps.receiptUrlOf(account);
  const loaded = await deps.contents.load(message);
  if (loaded.kind !== 'ready') return { outcome: withoutContent(loaded.kind), provider };
  const { content, release } = loaded;
  const entered = contentRefusal(provider, content) ?? enter(message, account, calledAs, deps);
  if (typeof entered === 'string')
    return { account, calledAs, isProbe: entered === 'probe', receiptUrl, content, release };
  release();
  // With an ambiguous outcome, an earlier call may have sent the message.
  return { outcome: entered, provider, receiptsExpected: entered.kind === 'ambiguous' };
}

/** Makes the last checks before the call, and enters the breaker. */
function enter(
  message: ClaimedMessage,
  { provider }: Account,
  accountId: string | null,
  deps: DeliverDeps,
): AttemptOutcome | 'pass' | 'probe' {
  // Asked again, because the credential and the content may have come late: a call that begins now may outlive this process.
  if (deps.isStopping()) return SHUTDOWN;
  // After the lease another worker settles the attempt as lost and may repeat it, so a call must end within the lease. This fails
  // if the claim's answer, the credential or the content came late, or if this process was paused.
  if (message.leaseEndsAt - performance.now() < callDeadlineMs(provider, deps)) return LEASE_OVER;
  // For the same reasons. The message waits again, and the sweep ends it by the database's clock.
  if (message.expiresAt.getTime() <= Date.now()) return LEASE_OVER;
  const lost = outcomeIfUnrepeatable(message, provider);
  if (lost !== undefined) return lost;
  const admitted = accountId === null ? 'pass' : deps.breakers.enter(accountId, message.provider);
  return admitted === 'blocked' ? BREAKER_OPEN : admitted;
}

function withoutContent(kind: 'unavailable' | 'gone'): AttemptOutcome {
  return kind === 'unavailable'
    ? { kind: 'not_started', reason: 'content_unavailable' }
    : { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'content_deleted' } };
}

const SHUTDOWN: AttemptOutcome = { kind: 'not_started', reason: 'shutdown' };
const LEASE_OVER: AttemptOutcome = { kind: 'not_started', reason: 'lease_over' };
const BREAKER_OPEN: AttemptOutcome = { kind: 'not_started', reason: 'breaker_open' };

/**
 * Returns the account whose breaker counts the call. Null for a simulator: the recipient's address determines its answer, which
 * says nothing about an account.
 */
function calledAccount(message: ClaimedMessage, account: Account): string | null {
  return account.provider === simulatorFor(message.channel) ? null : message.accountId;
}

/** Whether calls to the account must wait. An account with a refused credential is only probed. */
function isBlocked(message: ClaimedMessage, accountId: string, breakers: Breakers): boolean {
  const isInvalid = message.accountStatus === 'invalid';
  if (isInvalid && breakers.health(accountId) === 'healthy') breakers.open(accountId, message.provider);
  return breakers.blockedUntil(accountId) > 0;
}

/**
 * Calls the provider. It adds no stack frame unless the provider must be asked first.
 * @throws if the adapter throws, which is a bug.
 */
function call(
  outbound: OutboundMessage,
  message: ClaimedMessage,
  account: Account,
  deps: DeliverDeps,
): Promise<Outcome> {
  const { id: accountId, provider, version, config, secrets } = account;
  const until = performance.now() + callDeadlineMs(provider, deps);
  const context = deps.contextOf({ provider: provider.id, accountId, version, until });
  const send = () => provider.send(outbound as never, { config, secrets } as never, context);
  return message.ambiguous === 0 ? send() : sendIfNotTaken(message, account, context, send);
}

async function sendIfNotTaken(
  message: ClaimedMessage,
  account: Account,
  context: ProviderContext,
  send: () => Promise<Outcome>,
): Promise<Outcome> {
  return (await askBeforeRepeat(message, account, context)) ?? send();
}
