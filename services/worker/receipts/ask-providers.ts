import { decideLookup, decidePause, type LookupResult } from '#core/domain/decide-lookup.ts';
import { Deadline } from '#core/platform/process/deadline.ts';
import type { LookupOutcome } from '#core/platform/telemetry/metrics.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { DueLookup } from '#core/store/lookups.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { LookupAnswer, LookupReport } from '#providers/lookup.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { secretStrings } from '#providers/redact.ts';
import { unreached } from '#providers/unreached.ts';
import type { Account, Accounts } from '../accounts/accounts.ts';
import { toReport } from './to-report.ts';

export type AskProvidersDeps = {
  readonly store: Pick<DeliveryStore, 'takeLookups' | 'settleLookups'>;
  readonly accounts: Pick<Accounts, 'get'>;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  /** Total time of one question in milliseconds; shorter than the lease. */
  readonly deadlineMs: number;
  /** For how long a question is ours. */
  readonly leaseMs: number;
  readonly onAnswered: (provider: string, result: LookupOutcome) => void;
  /** A bug in an adapter; the question counts as not answered. */
  readonly onAdapterFault: (provider: string, error: unknown) => void;
  readonly now: () => number;
};

/**
 * Questions to one account: five at once, and one a second in the long run, over all workers. Sends have limits of their
 * own at the vendors, tens a second; this is next to nothing beside them.
 */
const PER_ACCOUNT_MAX = 5;
const SPACING_MS = 1_000;
/** With the five of each, the questions that a worker has under way at most are forty. */
const ACCOUNTS_AT_ONCE = 8;

type Asked = {
  readonly due: DueLookup;
  readonly hidden: readonly string[];
  readonly answer: LookupAnswer;
};

/**
 * Asks providers about messages that have been silent for too long. What they say waits then to be applied, as a receipt.
 * @returns about how many messages.
 */
export async function askProviders(deps: AskProvidersDeps): Promise<number> {
  const taken = await deps.store.takeLookups({
    accountsMax: ACCOUNTS_AT_ONCE,
    perAccountMax: PER_ACCOUNT_MAX,
    leaseMs: deps.leaseMs,
    spacingMs: SPACING_MS,
  });
  if (taken.length === 0) return 0;
  const asked = await Promise.all(taken.map((due) => askOne(due, deps)));
  const next = asked.map(({ due, answer }) => ({ due, decision: decideLookup(resultOf(answer), due) }));
  const nameOf = ({ seq, asks }: DueLookup) => ({ seq, asks });
  await deps.store.settleLookups({
    reports: asked.flatMap((one) => reportsOf(one, deps.now())),
    done: next.flatMap(({ due, decision }) => (decision.kind === 'done' ? [nameOf(due)] : [])),
    again: next.flatMap(({ due, decision }) =>
      decision.kind === 'done'
        ? []
        : [{ ...nameOf(due), ms: decision.kind === 'again' ? decision.ms : null }],
    ),
    accounts: [...Map.groupBy(asked, ({ due }) => due.accountId)].map(([accountId, ofAccount]) => {
      const results = ofAccount.map(({ answer }) => resultOf(answer));
      const { failures, pauseMs } = decidePause(results, ofAccount[0]?.due.failures ?? 0);
      return { account_id: accountId, failures, pause_ms: pauseMs };
    }),
  });
  for (const { due, answer } of asked) deps.onAnswered(due.provider, outcomeOf(answer));
  return taken.length;
}

async function askOne(due: DueLookup, deps: AskProvidersDeps): Promise<Asked> {
  const found: Awaited<ReturnType<Accounts['get']>> =
    due.accountVersion === null
      ? { kind: 'unusable', code: 'provider_deleted' }
      : await deps.accounts.get(due.accountId, due.accountVersion);
  if (found.kind === 'unusable') return { due, hidden: [], answer: { kind: 'unanswerable' } };
  // Somebody has switched the account off: nothing is sent with its credential, nor asked.
  if (found.kind === 'unavailable' || found.account.row?.status === 'disabled')
    return { due, hidden: [], answer: { kind: 'unanswered', failure: unreached('not_ready') } };
  return { due, hidden: secretStrings(found.account.secrets), answer: await ask(due, found.account, deps) };
}

async function ask(due: DueLookup, account: Account, deps: AskProvidersDeps): Promise<LookupAnswer> {
  const { id: accountId, provider, version, config, secrets } = account;
  const { lookup } = provider;
  const { messageId, providerMessageId } = due;
  if (lookup === undefined || (lookup.by === 'id' && providerMessageId === null))
    return { kind: 'unanswerable' };
  using deadline = new Deadline(deps.deadlineMs);
  try {
    const context = deps.contextOf({ provider: provider.id, accountId, version, signal: deadline.signal });
    return await lookup.ask({ messageId, providerMessageId }, { config, secrets } as never, context);
  } catch (error) {
    deps.onAdapterFault(provider.id, error);
    return { kind: 'unanswered', failure: unreached('adapter_fault') };
  }
}

/** Those that say something; a message that is merely under way is no event. */
function reportsOf({ due, hidden, answer }: Asked, receivedMs: number) {
  if (answer.kind !== 'found') return [];
  const { seq, purgeOn, messageId: id, tenantId, accountId } = due;
  return answer.reports
    .filter(({ state, engagement }) => state !== undefined || engagement !== undefined)
    .map((one) =>
      toReport(
        { ...one, ...namesOf(due), eventId: one.eventId ?? nameOfReport(due, one) },
        { id, seq, purgeOn },
        { tenantId, accountId, receivedMs, hidden, verified: true },
      ),
    );
}

function namesOf({ messageId, providerMessageId }: DueLookup) {
  return { reference: messageId, ...(providerMessageId === null ? {} : { providerMessageId }) };
}

/** The same each time that the vendor says the same, so that it is one event however often it is asked. */
function nameOfReport({ messageId }: DueLookup, { providerStatus, segment, engagement }: LookupReport) {
  return ['lookup', messageId, providerStatus, segment ?? '', engagement ?? ''].join('\n');
}

function resultOf(answer: LookupAnswer): LookupResult {
  switch (answer.kind) {
    case 'found':
      return { kind: 'answered', isFinal: answer.reports.some(isFinal) };
    case 'unanswered':
      return answer.retryAfterMs === undefined
        ? { kind: 'unanswered' }
        : { kind: 'unanswered', retryAfterMs: answer.retryAfterMs };
    case 'not_found':
    case 'unanswerable':
      return { kind: answer.kind };
  }
}

function isFinal({ state, isTemporary = false }: LookupReport): boolean {
  return state === 'delivered' || (state === 'undelivered' && !isTemporary);
}

function outcomeOf(answer: LookupAnswer): LookupOutcome {
  if (answer.kind !== 'found') return answer.kind;
  return answer.reports.some(isFinal) ? 'final' : 'pending';
}
