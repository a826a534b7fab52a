import type { ChangeOfEndpoint } from '#core/domain/tenant/notice.ts';
import { isUuid } from '#core/domain/storage/ids.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Breakers } from './accounts/breakers.ts';
import type { Credentials } from './accounts/credentials.ts';
import type { Dispatcher } from './claim/dispatcher.ts';
import type { TenantMoves } from './claim/tenant-moves.ts';
import type { ReceiptTimeouts } from './deliver/receipt-timeouts.ts';
import type { WorkerEvents } from './events.ts';
import type { PartitionMaker } from './upkeep/partition-maker.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

/** The content of a change notice; `changed` says what changed about an endpoint. */
export type WorkerNotice = {
  readonly tenantId?: string;
  readonly id?: string;
  readonly changed?: ChangeOfEndpoint;
};

export type OnNoticeDeps = {
  readonly store: Pick<WorkerStore, 'resumeLookups'>;
  readonly breakers: Pick<Breakers, 'reset'>;
  /** Caches of accounts' secrets. */
  readonly credentials: readonly Pick<Credentials, 'invalidate'>[];
  readonly dispatcher: Pick<Dispatcher, 'accountChanged'>;
  readonly moves: Pick<TenantMoves, 'add'>;
  readonly partitionMaker: Pick<PartitionMaker, 'request'>;
  readonly receiptTimeouts: Pick<ReceiptTimeouts, 'forget'>;
  readonly webhooks: Pick<Webhooks, 'endpointChanged'>;
  readonly events: Pick<WorkerEvents, 'taskFailed'>;
  readonly wake: (
    task:
      | 'sweep'
      | 'late_receipts'
      | 'tenant_moves'
      | 'policies'
      | 'partitions'
      | 'verify'
      | 'lookups'
      | 'endpoint_tests',
    delayMs?: number,
  ) => void;
};

const TENANT_RECHECK_MS = 400;

/** Returns the function that takes change notices. A notice only makes this process read the database again. */
export function onNotice(deps: OnNoticeDeps): (kind: string, notice: WorkerNotice) => void {
  const { wake } = deps;
  return (kind, { tenantId, id, changed = 'secrets' }) => {
    if (kind === 'account') {
      if (id !== undefined) accountChanged(id, deps);
      wake('verify');
      wake('sweep');
    }
    // Test messages, and the ends of their waits for receipts, may be due.
    if (kind === 'clock') {
      wake('sweep');
      wake('late_receipts');
    }
    if (kind === 'route' && tenantId !== undefined) deps.receiptTimeouts.forget(tenantId);
    if (kind === 'endpoint' && id !== undefined && isUuid(id)) endpointChanged(id, changed, deps);
    if (kind === 'tenant' && tenantId !== undefined && isUuid(tenantId)) tenantChanged(tenantId, deps);
  };
}

function accountChanged(
  id: string,
  { store, breakers, credentials, dispatcher, events, wake }: OnNoticeDeps,
): void {
  breakers.reset(id);
  for (const cache of credentials) cache.invalidate(id);
  dispatcher.accountChanged(id);
  store
    .resumeLookups(id)
    .then(() => wake('lookups'))
    .catch((error: unknown) => events.taskFailed('lookups', error));
}

function endpointChanged(id: string, changed: ChangeOfEndpoint, { webhooks, wake }: OnNoticeDeps): void {
  if (changed === 'test') wake('endpoint_tests');
  else webhooks.endpointChanged(id, changed);
}

function tenantChanged(tenantId: string, { moves, partitionMaker, wake }: OnNoticeDeps): void {
  const run = (): void => {
    moves.add(tenantId);
    wake('tenant_moves');
    wake('sweep');
    wake('policies');
  };
  run();
  // Its retention may be longer now, and partitions are made that far ahead.
  wake('partitions', partitionMaker.request());
  // Runs once more for messages that were being accepted at that moment.
  setTimeout(run, TENANT_RECHECK_MS).unref();
}
