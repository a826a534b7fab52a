import { decideSilence } from '#core/domain/receipts/decide-silence.ts';
import type { FailoverLabels } from '#core/platform/telemetry/worker-labels.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { SilenceDecided, SilenceRouting, SilentRow } from '#core/store/receipts/silent-messages.ts';
import { closedAccounts, type WhyClosed } from '../claim/closed-accounts.ts';
import type { Dispatcher } from '../claim/dispatcher.ts';

export type SilentMessagesDeps = {
  readonly store: Pick<WorkerStore, 'settleSilent'>;
  readonly whyClosed: WhyClosed;
  readonly mark: Dispatcher['mark'];
  readonly onFailedOver: (failover: FailoverLabels) => void;
  /** Called after each full batch. */
  readonly onBatch: () => void;
  readonly isStopping: () => boolean;
};

/** Small, because the rows stay locked while accounts and routes are read, and receipts of these messages wait meanwhile. */
const SETTLED_AT_ONCE = 100;

/**
 * Sends messages through the next account of their route if the account that accepted them did not report in time.
 * @throws the database's error; the remaining messages are due at the next run.
 */
export async function failOverSilent(deps: SilentMessagesDeps): Promise<void> {
  const { store, mark, onFailedOver, onBatch, isStopping } = deps;
  while (!isStopping()) {
    let providers = new Map<string, string>();
    const decided = await store.settleSilent(SETTLED_AT_ONCE, (due, routing) => {
      providers = new Map(routing.accounts.map(({ id, provider }) => [id, provider]));
      return decideEach(due, routing, deps);
    });
    for (const { row, decision } of decided) {
      if (decision.kind !== 'move' || row.channel === null) continue;
      const { accountId } = decision.rerouted;
      mark({ tenantId: row.tenantId, accountId });
      onFailedOver({
        channel: row.channel,
        provider: row.provider ?? 'unknown',
        to: providers.get(accountId) ?? 'unknown',
        because: 'receipt_timeout',
      });
    }
    // Those that are put off could be due again before the last one was looked at; the next run is soon.
    if (decided.every(({ decision }) => decision.kind === 'later')) return;
    onBatch();
  }
}

function decideEach(
  due: readonly SilentRow[],
  { accounts, routes }: SilenceRouting,
  { whyClosed }: Pick<SilentMessagesDeps, 'whyClosed'>,
): SilenceDecided[] {
  const accountsOf = Map.groupBy(accounts, ({ tenantId }) => tenantId);
  const routesOf = Map.groupBy(routes, ({ tenantId }) => tenantId);
  const closed = closedAccounts(accounts, whyClosed);
  return due.map((row) => ({
    row,
    decision: decideSilence(
      row,
      accountsOf.get(row.tenantId) ?? [],
      routesOf.get(row.tenantId) ?? [],
      closed,
    ),
  }));
}
