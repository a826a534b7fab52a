import type { LookupResult } from '#core/domain/receipts/decide-lookup.ts';
import { ADAPTER_FAULT } from '#core/domain/sending/failure.ts';
import type { DueLookup } from '#core/store/receipts/lookups.ts';
import type { LookupAnswer, LookupReport } from '#providers/lookup.ts';
import { secretStrings } from '#providers/redact.ts';
import { unreached } from '#providers/unreached.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';
import { callAdapter, type CallAdapterDeps } from '../accounts/call-adapter.ts';

export type AskAccountDeps = CallAdapterDeps & {
  readonly accounts: Pick<Accounts, 'get'>;
  /** Total time of one lookup in milliseconds; shorter than the lease. */
  readonly deadlineMs: number;
  /** Aborted when the worker stops, which ends the calls under way. */
  readonly signal: AbortSignal;
};

/** A lookup and the provider's answer. */
export type Asked = {
  readonly due: DueLookup;
  /** Secrets of the account, which are redacted from the vendor's texts. */
  readonly hidden: readonly string[];
  readonly answer: LookupAnswer;
};

/** Looks up messages of one account, concurrently; the batch is within the account's limit. */
export async function askAccount(batch: readonly DueLookup[], deps: AskAccountDeps): Promise<Asked[]> {
  return await Promise.all(batch.map((due) => askOne(due, deps)));
}

async function askOne(due: DueLookup, deps: AskAccountDeps): Promise<Asked> {
  const found: Awaited<ReturnType<Accounts['get']>> =
    due.accountVersion === null
      ? { kind: 'unusable', code: 'provider_deleted' }
      : await deps.accounts.get(due.accountId, due.accountVersion);
  if (found.kind === 'unusable' && found.code === 'provider_deleted')
    return { due, hidden: [], answer: { kind: 'unanswerable' } };
  // Settings and secrets can be mended. If the account was disabled, its credential is used neither for sends nor for lookups.
  if (found.kind !== 'ready' || found.account.row?.status === 'disabled')
    return { due, hidden: [], answer: { kind: 'unanswered', failure: unreached('not_ready') } };
  return { due, hidden: secretStrings(found.account.secrets), answer: await ask(due, found.account, deps) };
}

async function ask(due: DueLookup, account: Account, deps: AskAccountDeps): Promise<LookupAnswer> {
  const { lookup } = account.provider;
  const { messageId, providerMessageId } = due;
  if (lookup === undefined || (lookup.by === 'id' && providerMessageId === null))
    return { kind: 'unanswerable' };
  const failed = { kind: 'unanswered', failure: unreached(ADAPTER_FAULT) } as const;
  const question = { messageId, providerMessageId };
  return callAdapter<LookupAnswer>(
    account,
    deps,
    (known, context) => lookup.ask(question, known, context),
    failed,
  );
}

/** Returns the part of an answer that the decisions depend on. */
export function resultOf(answer: LookupAnswer): LookupResult {
  switch (answer.kind) {
    case 'found':
      return { kind: 'answered', isFinal: answer.reports.some(isFinal) };
    case 'unanswered':
      return {
        kind: 'unanswered',
        isThrottled: answer.failure.class === 'provider_throttled',
        ...(answer.retryAfterMs === undefined ? {} : { retryAfterMs: answer.retryAfterMs }),
      };
    case 'not_found':
    case 'unanswerable':
    case 'forbidden':
      return { kind: answer.kind };
  }
}

function isFinal({ state, isTemporary = false }: LookupReport): boolean {
  return state === 'delivered' || (state === 'undelivered' && !isTemporary);
}
