import type { Breaker } from '#core/domain/breaker.ts';
import { decideReceipts } from '#core/domain/decide-receipts.ts';
import { RECEIPT_TIMEOUT_MS } from '#core/domain/settle.ts';
import { createFairQueue } from '#core/domain/fair-queue.ts';
import { isUuid, newProcessName } from '#core/domain/ids.ts';
import { createMessageIdLoader } from '#core/domain/message-id-loader.ts';
import type { ReceiptKey } from '#core/domain/receipt-token.ts';
import { decodeWakes, RECEIPT_WAKE, type Wake } from '#core/domain/wake.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { ProviderCall } from '#providers/context.ts';
import { askableProviders } from '#providers/registry.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { createAccountStatus } from './accounts/account-status.ts';
import { createAccounts } from './accounts/accounts.ts';
import { createBreakers } from './accounts/breakers.ts';
import type { Credentials } from './accounts/credentials.ts';
import { createContents } from './deliver/contents.ts';
import { createDeliver } from './deliver/deliver.ts';
import { createDispatcher } from './claim/dispatcher.ts';
import type { WorkerEvents } from './events.ts';
import { refreshPolicies } from './claim/policies.ts';
import { createRecorder } from './deliver/recorder.ts';
import { askProviders } from './receipts/ask-providers.ts';
import { readReceiptCalls } from './receipts/receipt-calls.ts';
import { receiptUrlFor } from './receipts/receipt-url-for.ts';
import { traceReceipts } from './receipts/trace-receipts.ts';
import { repeat, type Repeating } from './repeat.ts';
import { holdAll, releaseAll, sweep } from './claim/sweep.ts';
import { verifyRequested } from './accounts/verify.ts';

export type WorkerSettings = {
  /** Names this process for people; others may have the same name. */
  readonly name: string;
  /** Provider calls at once. */
  readonly inFlightMax: number;
  /** Wake-ups of one tenant kept in memory; more stay in the database. */
  readonly queuedPerTenantMax: number;
  /** Wake-ups of all tenants kept in memory. */
  readonly queuedMax: number;
  /** Total time of one provider call in milliseconds. */
  readonly deadlineMs: number;
  /** How long a claim is ours; what is not recorded by then counts as lost. */
  readonly leaseMs: number;
  /** Of contents at once that are stored apart from their messages. */
  readonly largeContentBytesMax: number;
  /** Between two sweeps, in milliseconds. */
  readonly sweepMs: number;
};

/** Where vendors report to. */
export type ReceiptSettings = {
  readonly publicBaseUrl: string;
  /** Key of the tokens in receipt URLs. */
  readonly receiptKey: ReceiptKey;
};

export type WorkerDeps = {
  readonly store: DeliveryStore;
  readonly credentials: Credentials;
  /** Of secrets that were replaced a short time ago. */
  readonly replacedCredentials: Credentials;
  /** Absent: no receipts are asked for, and those that come all the same are left for a worker that has them. */
  readonly receipts?: ReceiptSettings | undefined;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  readonly events: WorkerEvents;
  readonly settings: WorkerSettings;
};

export type Worker = {
  /** The name in its claims: the process's name and a part that no other start has. */
  readonly identity: string;
  /** Takes in the wake-ups of one message; anything that is not one is dropped. @param kind a priority, or `RECEIPT_WAKE`. */
  wake(payload: string, kind: string): void;
  /** A change notice. It makes this process read the database again and decides nothing by itself. */
  notice(kind: string, payload: { readonly tenantId?: string; readonly id?: string }): void;
  /** The stream was made anew; what it held is found by the sweep. */
  streamRecreated(): void;
  /** Stops taking and claiming, lets what is in flight end, records it. */
  stop(): Promise<void>;
  /** Stops trying to record attempts: their leases run out, and other workers settle them. */
  abandon(): void;
  readonly inFlight: () => number;
  /** How long the longest due message waited that could be sent, as the last sweep saw it. */
  readonly oldestDueSeconds: () => number;
};

type Health = Breaker['health'];

const RECEIPTS_AT_ONCE = 200;
/** Between two searches for receipts that have not come. */
const LATE_RECEIPTS_MS = 10_000;
const CONTENTS_AT_ONCE = 100;
const OUTLIVED_AT_ONCE = 500;
const TENANT_RECHECK_MS = 400;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** While a long read, such as a backup, is under way. */
const BUSY_RETRY_MS = 5 * MINUTE_MS;

/** Puts the parts together and starts the tasks that repeat. Opens nothing itself. */
export function buildWorker(deps: WorkerDeps): Worker {
  const { store, events, settings, contextOf } = deps;
  const now = Date.now;
  // Tests break this (mutant: process-name): a restarted worker does not begin again what it had claimed before.
  const identity = newProcessName(settings.name);
  let stopping = false;
  let oldestDueSeconds = 0;
  const aborted = new AbortController();

  const queue = createFairQueue<Wake>(settings.queuedPerTenantMax, settings.queuedMax, settings.inFlightMax);
  const breakers = createBreakers(healthChanged, now);
  const accounts = createAccounts(store, deps.credentials, deps.replacedCredentials);
  const noteAccount = createAccountStatus({ store, breakers, onMoved: events.accountMoved });
  const contents = createContents({
    store,
    bytesMax: settings.largeContentBytesMax,
    // With it the call still ends well within the lease.
    waitMsMax: settings.leaseMs / 4,
  });
  const loadIds = createMessageIdLoader(store.messageIdKey);
  const deliver = createDeliver({
    accounts,
    contents,
    breakers,
    contextOf,
    receiptUrlOf: (account) => receiptUrlFor(account, deps.receipts),
    deadlineMs: settings.deadlineMs,
    onAdapterFault: events.adapterFault,
    now,
    isStopping: () => stopping,
  });
  const recorder = createRecorder({
    store,
    now,
    random: Math.random,
    onFailure: events.recordDelayed,
    signal: aborted.signal,
    inFlightMax: settings.inFlightMax,
  });
  const dispatcher = createDispatcher({
    queue,
    store,
    breakers,
    deliver,
    recorder,
    worker: identity,
    leaseMs: settings.leaseMs,
    inFlightMax: settings.inFlightMax,
    events: {
      ...events,
      attemptFinished(message, delivered, settlement) {
        events.attemptFinished(message, delivered, settlement);
        noteAccount(message, delivered.outcome).catch((error: unknown) =>
          events.taskFailed('account_status', error),
        );
        for (const receipt of settlement?.receipts ?? []) tasks.receipts.wake(receipt.afterMs + 5);
      },
    },
  });

  const task = (name: string, everyMs: number, work: () => Promise<void>): Repeating =>
    repeat(work, { everyMs, onError: (error) => events.taskFailed(name, error) });
  const tasks = {
    sweep: task('sweep', settings.sweepMs, async () => {
      oldestDueSeconds = await sweep(store, dispatcher, now());
    }),
    receipts: task('receipts', settings.sweepMs, async () => {
      for (;;) {
        const { results } = await store.applyReceipts(RECEIPTS_AT_ONCE, decideReceipts);
        events.receiptsSettled(results);
        traceReceipts(results);
        if (results.length < RECEIPTS_AT_ONCE) return;
      }
    }),
    receiptCalls: task('receipt_calls', settings.sweepMs, async () => {
      if (deps.receipts === undefined) return;
      const ids = await loadIds();
      for (;;) {
        const { count, isFull } = await readReceiptCalls({
          ...deps.receipts,
          ids,
          store,
          accounts,
          contextOf,
          deadlineMs: settings.deadlineMs,
          onRead: events.receiptCallRead,
          onAdapterFault: events.adapterFault,
        });
        if (count > 0) tasks.receipts.wake();
        if (!isFull) return;
      }
    }),
    lateReceipts: task('late_receipts', LATE_RECEIPTS_MS, async () => {
      const askable = askableProviders();
      for (;;) {
        const { seen, silent } = await store.expireReceipts(RECEIPTS_AT_ONCE, askable, RECEIPT_TIMEOUT_MS);
        events.messagesSilent(silent);
        if (seen > 0) tasks.lookups.wake();
        if (seen < RECEIPTS_AT_ONCE) return;
      }
    }),
    lookups: task('lookups', settings.sweepMs, async () => {
      const asking = {
        store,
        accounts,
        contextOf,
        deadlineMs: settings.deadlineMs,
        leaseMs: settings.leaseMs,
        onAnswered: events.lookedUp,
        onAdapterFault: events.adapterFault,
        now,
      };
      for (;;) {
        const asked = await askProviders(asking);
        if (asked === 0) return;
        tasks.receipts.wake();
        if (stopping) return;
      }
    }),
    policies: task('policies', 2_000, () => refreshPolicies(store, queue)),
    verify: task('verify', 5_000, () =>
      verifyRequested({
        store,
        accounts,
        breakers,
        contextOf,
        deadlineMs: settings.deadlineMs,
        onVerified: events.accountVerified,
        onAdapterFault: events.adapterFault,
      }),
    ),
    forget: task('forget', MINUTE_MS, () => store.forgetReplacedSecrets()),
    contents: task('contents', MINUTE_MS, async () => {
      while ((await store.settleContents(CONTENTS_AT_ONCE)) === CONTENTS_AT_ONCE);
    }),
    maintain: task('maintain', HOUR_MS, async () => {
      while ((await store.endOutlived(OUTLIVED_AT_ONCE)) === OUTLIVED_AT_ONCE);
      const result = await store.maintain();
      if (result === 'elsewhere') return;
      events.maintained(result);
      if (result.busy.length > 0) tasks.maintain.wake(BUSY_RETRY_MS);
    }),
  };

  function healthChanged(accountId: string, provider: string, before: Health, after: Health): void {
    events.accountHealth(accountId, provider, before, after);
    store
      .noteAccountHealth(accountId, after)
      .catch((error: unknown) => events.taskFailed('account_health', error));
    if (after === 'healthy') recovered(accountId);
  }

  /** What waits for the account goes on at once, and the sweep brings what was put off for its sake. */
  function recovered(accountId: string): void {
    dispatcher.accountChanged(accountId);
    tasks.sweep.wake();
  }

  async function tenantChanged(tenantId: string): Promise<void> {
    // Both do nothing unless the tenant's own row says so.
    await holdAll(store, tenantId);
    await releaseAll(store, tenantId);
    tasks.sweep.wake();
    tasks.policies.wake();
  }

  function noteTenantChange(tenantId: string): void {
    const run = (): void => {
      tenantChanged(tenantId).catch((error: unknown) => events.taskFailed('tenant_change', error));
    };
    run();
    // Once more for what was being accepted at that very moment.
    setTimeout(run, TENANT_RECHECK_MS).unref();
  }

  return {
    identity,
    inFlight: () => dispatcher.inFlight,
    oldestDueSeconds: () => oldestDueSeconds,
    wake(payload, kind) {
      if (kind === RECEIPT_WAKE) tasks.receiptCalls.wake();
      else for (const wake of decodeWakes(payload, kind)) dispatcher.offer(wake);
    },
    notice(kind, { tenantId, id }) {
      if (kind === 'account') {
        if (id !== undefined) {
          breakers.reset(id);
          deps.credentials.invalidate(id);
          deps.replacedCredentials.invalidate(id);
          dispatcher.accountChanged(id);
        }
        tasks.verify.wake();
        tasks.sweep.wake();
      }
      if (kind === 'tenant' && tenantId !== undefined && isUuid(tenantId)) {
        noteTenantChange(tenantId);
      }
    },
    streamRecreated() {
      events.streamRecreated();
      tasks.sweep.wake();
    },
    async stop() {
      stopping = true;
      // Nothing is claimed any more, however long a task takes to end: no call would be begun.
      const ended = dispatcher.stop();
      await Promise.all([ended, ...Object.values(tasks).map((repeating) => repeating.stop())]);
    },
    abandon: () => aborted.abort(),
  };
}
