import { monotonicMs } from '#core/domain/clock.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { timedStore } from '#core/platform/postgres/timed-store.ts';
import type { ApiMetrics } from '#core/platform/telemetry/api-metrics.ts';
import {
  loadReceiptAccounts,
  storeReceiptCalls,
  type NewReceiptCall,
} from '#core/store/receipts/receipt-calls.ts';
import { createCountedAccounts } from './counted-accounts.ts';
import { createFullAccounts, type FullAccounts } from './full-accounts.ts';
import { createReceiptAccounts, type ReceiptAccounts } from './receipt-accounts.ts';
import { createReceiptBatcher, type ReceiptBatcher } from './receipt-batcher.ts';
import { createReceiptWakes } from './receipt-wakes.ts';

export type ReceiptIntakeDeps = {
  readonly sql: Sql;
  readonly metrics: Pick<ApiMetrics, 'database'>;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
};

/** What stores receipt calls: finds their accounts, gathers them in shared commits, and wakes workers. */
export type ReceiptIntake = {
  readonly accounts: ReceiptAccounts;
  readonly batcher: ReceiptBatcher;
  readonly full: FullAccounts;
  /** Stores what is waiting. */
  readonly stop: () => Promise<void>;
};

export function createReceiptIntake({ sql, metrics, wakes: publisher }: ReceiptIntakeDeps): ReceiptIntake {
  const counted = createCountedAccounts({ monotonicMs });
  const store = timedStore(
    {
      loadReceiptAccounts: (ids: readonly string[]) => loadReceiptAccounts(sql, ids),
      storeReceiptCalls: (calls: readonly NewReceiptCall[]) =>
        storeReceiptCalls(sql, calls, counted.due(calls)),
    },
    metrics.database,
  );
  const wakes = createReceiptWakes(publisher);
  const batcher = createReceiptBatcher({ ...store, onStored: wakes.note });
  return {
    accounts: createReceiptAccounts(store),
    batcher,
    full: createFullAccounts(),
    async stop() {
      await batcher.drain();
      wakes.stop();
    },
  };
}
