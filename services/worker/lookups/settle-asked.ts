import type { EpochClock } from '#core/domain/clock.ts';
import { ADAPTER_FAULT } from '#core/domain/sending/failure.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { decideLookup, type LookupPause } from '#core/domain/receipts/decide-lookup.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { DueLookup } from '#core/store/receipts/lookups.ts';
import type { LookupReport } from '#providers/lookup.ts';
import { createRedactor } from '#providers/redact.ts';
import { unreached } from '#providers/unreached.ts';
import { vendorName } from '#providers/vendor-text.ts';
import { toReport } from '../receipts/to-report.ts';
import { resultOf, type Asked } from './ask-account.ts';

export type SettleAskedDeps = {
  readonly store: Pick<WorkerStore, 'settleLookups'>;
  /** Called when the database refuses what the vendor reports about the message. */
  readonly onUnstorable: (due: DueLookup, error: unknown) => void;
  readonly epochMs: EpochClock;
};

type Turn = Pick<DueLookup, 'accountId' | 'turn'> & Pick<LookupPause, 'failures' | 'pauseMs'>;

/**
 * Stores the answers of an account's turn, and ends the turn. A message whose report the database refuses is looked up again later,
 * as if there had been no answer: the database may refuse all reports until it is repaired.
 */
export async function settleAsked(
  asked: readonly Asked[],
  { accountId, turn, failures, pauseMs }: Turn,
  deps: SettleAskedDeps,
): Promise<void> {
  const turns = [{ account_id: accountId, turn, failures, pause_ms: Math.round(pauseMs) }];
  const store = async (some: readonly Asked[]): Promise<readonly Asked[]> => {
    await deps.store.settleLookups({ ...rowsOf(some, deps.epochMs()), turns });
    return some;
  };
  await bisectFaults(asked, store, async (some, error) => {
    const [first] = some;
    if (databaseFaultOf(error) !== 'row' || first?.answer.kind !== 'found') throw error;
    deps.onUnstorable(first.due, error);
    return await store([{ ...first, answer: { kind: 'unanswered', failure: unreached(ADAPTER_FAULT) } }]);
  });
}

function rowsOf(asked: readonly Asked[], receivedMs: number) {
  const next = asked.map(({ due, answer }) => ({ due, decision: decideLookup(resultOf(answer), due) }));
  const nameOf = ({ seq, asks }: DueLookup) => ({ seq, asks });
  return {
    reports: asked.flatMap((one) => reportsOf(one, receivedMs)),
    found: asked.flatMap(foundId),
    done: next.flatMap(({ due, decision }) => (decision.kind === 'done' ? [nameOf(due)] : [])),
    again: next.flatMap(({ due, decision }) =>
      decision.kind === 'done'
        ? []
        : [{ ...nameOf(due), ms: decision.kind === 'again' ? decision.ms : null }],
    ),
  };
}

/** Returns the provider's id of messages that were known only by our reference. */
function foundId({ due, answer }: Asked) {
  if (answer.kind !== 'found' || due.providerMessageId !== null) return [];
  const provider_message_id = vendorName(answer.providerMessageId);
  if (provider_message_id === undefined) return [];
  const { seq, purgeOn, tenantId } = due;
  return [{ seq, purge_on: purgeOn, tenant_id: tenantId, provider_message_id }];
}

function reportsOf(asked: Asked, receivedMs: number) {
  const { due, hidden, answer } = asked;
  if (answer.kind !== 'found') return [];
  const { seq, purgeOn, messageId: id, tenantId, accountId } = due;
  const providerMessageId = due.providerMessageId ?? answer.providerMessageId;
  const redact = createRedactor(hidden);
  const names = { reference: id, ...(providerMessageId === undefined ? {} : { providerMessageId }) };
  return toldOf(due, answer.reports).map((one) => ({
    tenant_id: tenantId,
    account_id: accountId,
    received_ms: receivedMs,
    ...toReport(
      { ...one, ...names, eventId: one.eventId ?? nameOfReport(due, one) },
      { id, seq, purgeOn },
      { accountId, receivedMs, redact, verified: true },
    ),
  }));
}

/**
 * Returns the reports that state something; "under way" alone is no event. A message of unknown state was taken: its provider
 * knows it.
 */
function toldOf({ status }: DueLookup, reports: readonly LookupReport[]): readonly LookupReport[] {
  const told = reports.filter(({ state, engagement }) => state !== undefined || engagement !== undefined);
  if (status !== 'unknown' || told.some(({ state }) => state !== undefined)) return told;
  return [...told, { providerStatus: reports[0]?.providerStatus ?? 'found', state: 'sent' }];
}

/** Returns the same name for the same report, so that it is one event however often the vendor is asked. */
function nameOfReport({ messageId }: DueLookup, { providerStatus, segment, engagement }: LookupReport) {
  return ['lookup', messageId, providerStatus, segment ?? '', engagement ?? ''].join('\n');
}
