import type { OutboundMessage } from '#core/domain/content.ts';
import { isProviderFault, type Failure } from '#core/domain/failure.ts';
import type { AttemptOutcome, Outcome } from '#core/domain/outcome.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import type { AnyProvider, ProviderContext } from '#providers/provider.ts';
import type { ProviderCall } from '#providers/context.ts';
import { contentRefusal } from '#providers/content-limits.ts';
import { simulatorFor } from '#providers/registry.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import { withSpan } from '#core/platform/telemetry/telemetry.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';
import type { Breakers } from '../accounts/breakers.ts';
import { expectsReceipts } from '../receipts/expects-receipts.ts';
import { askBeforeRepeat } from './ask-before-repeat.ts';
import type { Contents } from './contents.ts';
import { toOutbound } from './to-outbound.ts';

export type DeliverDeps = {
  readonly accounts: Accounts;
  readonly contents: Contents;
  readonly breakers: Breakers;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  /** Where the vendor can report on messages of the account; undefined where no receipts are asked for. */
  readonly receiptUrlOf: (account: Account) => string | undefined;
  /** Total time of one provider call in milliseconds. */
  readonly deadlineMs: number;
  /** A bug in an adapter; the attempt is then ambiguous. */
  readonly onAdapterFault: (provider: string, error: unknown, message: ClaimedMessage) => void;
  readonly now: () => number;
  /** True once the process is going down: no call is begun any more. */
  readonly isStopping: () => boolean;
};

export type Delivered = {
  readonly outcome: AttemptOutcome;
  readonly provider: AnyProvider | undefined;
  /** Somebody will report what becomes of the message. Default false. */
  readonly receiptsExpected?: boolean;
  /** Time of the provider call alone; undefined when none was made. */
  readonly callMs?: number;
};

/** Makes the one provider call of a claimed attempt. Never throws: every way it can end is an outcome. */
export function createDeliver(deps: DeliverDeps): (message: ClaimedMessage) => Promise<Delivered> {
  return (message) => deliver(message, deps);
}

async function deliver(message: ClaimedMessage, deps: DeliverDeps): Promise<Delivered> {
  if (deps.isStopping()) return { outcome: { kind: 'not_started', reason: 'shutdown' }, provider: undefined };
  const found = await accountOf(message, deps.accounts);
  if ('outcome' in found) return { outcome: found.outcome, provider: undefined };
  const accountId = calledAccount(message, found.account);
  // Checked before the content is fetched, which may be large.
  if (accountId !== null && isBlocked(message, accountId, deps.breakers))
    return { outcome: BREAKER_OPEN, provider: found.account.provider };
  const loaded = await deps.contents.load(message);
  if (loaded.kind !== 'ready')
    return { outcome: withoutContent(loaded.kind), provider: found.account.provider };
  try {
    return await deliverLoaded(message, loaded.content, found.account, deps);
  } finally {
    loaded.release();
  }
}

function withoutContent(kind: 'unavailable' | 'gone'): AttemptOutcome {
  return kind === 'unavailable'
    ? { kind: 'not_started', reason: 'content_unavailable' }
    : { kind: 'rejected_permanent', failure: { class: 'unknown', code: 'content_deleted' } };
}

/** @param content of the message, which itself may say only where it is stored. */
async function deliverLoaded(
  message: ClaimedMessage,
  content: unknown,
  account: Account,
  deps: DeliverDeps,
): Promise<Delivered> {
  const refusal = contentRefusal(account.provider, content);
  if (refusal !== undefined) return { outcome: refusal, provider: account.provider };
  const accountId = calledAccount(message, account);
  if (accountId !== null && deps.breakers.enter(accountId, message.provider) === 'blocked')
    return { outcome: BREAKER_OPEN, provider: account.provider };
  const receiptUrl = deps.receiptUrlOf(account);
  const started = performance.now();
  const outcome = await withSpan(`send ${account.provider.id}`, { kind: 'client' }, () =>
    call(toOutbound(message, content, receiptUrl), message, account, deps),
  );
  if (accountId !== null) noteCall(accountId, outcome, deps.breakers);
  return {
    outcome,
    provider: account.provider,
    receiptsExpected: expectsReceipts(account, receiptUrl),
    callMs: performance.now() - started,
  };
}

const BREAKER_OPEN: AttemptOutcome = { kind: 'not_started', reason: 'breaker_open' };

/** Null for a simulator: the recipient's address chooses its answer, which says nothing about an account. */
function calledAccount(message: ClaimedMessage, account: Account): string | null {
  return account.provider === simulatorFor(message.channel) ? null : message.accountId;
}

/** Whether calls to the account wait now. One whose credential is refused is only probed. */
function isBlocked(message: ClaimedMessage, accountId: string, breakers: Breakers): boolean {
  const isInvalid = message.accountStatus === 'invalid';
  if (isInvalid && breakers.health(accountId) === 'healthy') breakers.open(accountId);
  return breakers.blockedUntil(accountId) > 0;
}

function noteCall(accountId: string, outcome: Outcome, breakers: Breakers): void {
  const refused = outcome.kind === 'rejected_transient' && outcome.failure.class === 'auth_or_config';
  // A probe whose credential is refused is no sign of recovery, though the provider did answer.
  if (refused && breakers.health(accountId) !== 'healthy') breakers.open(accountId);
  else breakers.note(accountId, isFault(outcome));
}

async function accountOf(
  message: ClaimedMessage,
  accounts: Accounts,
): Promise<{ account: Account } | { outcome: AttemptOutcome }> {
  if (message.accountId === null || message.accountVersion === null) {
    return {
      account: {
        id: 'test',
        provider: simulatorFor(message.channel),
        version: 0,
        config: {},
        secrets: {},
        row: null,
      },
    };
  }
  const found = await accounts.get(message.accountId, message.accountVersion);
  switch (found.kind) {
    case 'ready':
      return { account: found.account };
    case 'unavailable':
      return { outcome: { kind: 'not_started', reason: 'credentials_unavailable' } };
    case 'unusable':
      return {
        outcome: { kind: 'rejected_transient', failure: { class: 'auth_or_config', code: found.code } },
      };
  }
}

async function call(
  outbound: OutboundMessage,
  message: ClaimedMessage,
  account: Account,
  deps: DeliverDeps,
): Promise<Outcome> {
  // Disposed of by hand: `using` costs more than the deadline.
  const deadline = new Deadline(deps.deadlineMs);
  try {
    const context = deps.contextOf({
      provider: account.provider.id,
      accountId: account.id,
      version: account.version,
      signal: deadline.signal,
    });
    const known = await askBeforeRepeat(message, account, context);
    if (known !== undefined) return known;
    return await account.provider.send(
      outbound as never,
      { config: account.config, secrets: account.secrets } as never,
      context,
    );
  } catch (error) {
    deps.onAdapterFault(account.provider.id, error, message);
    return { kind: 'ambiguous', failure: ADAPTER_FAULT };
  } finally {
    deadline[Symbol.dispose]();
  }
}

const ADAPTER_FAULT: Failure = { class: 'unknown', code: 'adapter_fault' };

function isFault(outcome: Outcome): boolean {
  return (
    outcome.kind === 'ambiguous' ||
    (outcome.kind === 'rejected_transient' && isProviderFault(outcome.failure.class))
  );
}
