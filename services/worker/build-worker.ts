import { epochMs, monotonicMs } from '#core/domain/clock.ts';
import { createFairQueue } from '#core/domain/queue/fair-queue.ts';
import { newProcessName } from '#core/domain/storage/ids.ts';
import { createIdLoader } from '#core/domain/storage/id-loader.ts';
import { createExpectedWork } from '#core/domain/queue/expected-work.ts';
import { decodeWakes, RECEIPT_WAKE, type Wake } from '#core/domain/queue/wake.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { ProviderCall } from '#providers/context.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { afterAttempt } from './after-attempt.ts';
import { createHealthNotes } from './accounts/health-notes.ts';
import { createAccountStatus } from './accounts/account-status.ts';
import { accountTasks, type AccountTaskName } from './accounts/account-tasks.ts';
import { createAccounts } from './accounts/accounts.ts';
import { createBreakers, type Breakers } from './accounts/breakers.ts';
import type { Credentials } from './accounts/credentials.ts';
import { createContents } from './deliver/contents.ts';
import { createDeliver } from './deliver/deliver.ts';
import { claimTasks, type ClaimTaskName } from './claim/claim-tasks.ts';
import { createClosedLanes } from './claim/closed-lanes.ts';
import { createDelayedMoves } from './claim/delayed-moves.ts';
import { createDispatcher } from './claim/dispatcher.ts';
import { createDueLooks } from './claim/due-looks.ts';
import type { WorkerEvents } from './events.ts';
import { onNotice, type WorkerNotice } from './on-notice.ts';
import { createFailoverFacts } from './deliver/failover-facts.ts';
import { createReceiptTimeouts } from './deliver/receipt-timeouts.ts';
import { createRecorder } from './deliver/recorder.ts';
import { createLookups } from './lookups/lookups.ts';
import { createReceiptApplier } from './receipts/receipt-applier.ts';
import { createReceiptReader } from './receipts/receipt-reader.ts';
import { createReceiptPace } from './receipts/receipt-pace.ts';
import { receiptTasks, type ReceiptTaskName } from './receipts/receipt-tasks.ts';
import { receiptUrlFor, type ReceiptSettings } from './receipts/receipt-url-for.ts';
import { unsubscribeUrlFor, type UnsubscribeSettings } from './deliver/unsubscribe-url-for.ts';
import { traceReceipts } from './receipts/trace-receipts.ts';
import { startTaskWith } from './start-task.ts';
import type { Overdue } from './claim/sweep.ts';
import { createTasks } from './tasks.ts';
import { createPartitionMaker } from './upkeep/partition-maker.ts';
import { NUMBERING_GAP_MS } from './upkeep/number-events.ts';
import { upkeepTasks, type UpkeepTaskName } from './upkeep/upkeep-tasks.ts';
import { createResolveWaiting } from './claim/resolve-waiting.ts';
import { createScheduledMoves } from './claim/scheduled-moves.ts';
import { createTenantMoves } from './claim/tenant-moves.ts';
import { webhookTasks, type WebhookTaskName } from './webhooks/webhook-tasks.ts';
import { createWebhooks, type WebhooksDeps } from './webhooks/webhooks.ts';
import type { WorkerSettings } from './worker-settings.ts';

export type WorkerDeps = {
  readonly store: WorkerStore;
  readonly credentials: Credentials;
  /** Credentials that were replaced a short time ago. */
  readonly replacedCredentials: Credentials;
  /** Absent: this worker requests no receipts and leaves arriving ones to workers with these settings. */
  readonly receipts?: ReceiptSettings | undefined;
  /** Undefined: mails contain no unsubscribe information. */
  readonly unsubscribing?: UnsubscribeSettings | undefined;
  readonly contextOf: (call: ProviderCall) => ProviderContext;
  readonly webhooks: Pick<WebhooksDeps, 'store' | 'secrets' | 'http' | 'allowHttp' | 'settings'>;
  readonly events: WorkerEvents;
  readonly settings: WorkerSettings;
};

export type Worker = {
  /** The name in its claims: the process's name plus a part that is unique to this start. */
  readonly identity: string;
  /** Takes the wake-up of one message; anything else is dropped. @param kind a priority, or `RECEIPT_WAKE`. */
  wake(payload: string, kind: string): void;
  /** Takes a change notice. It only makes this process read the database again. */
  notice(kind: string, notice: WorkerNotice): void;
  /** The stream was recreated; the sweep finds the messages of its lost wake-ups. */
  streamRecreated(): void;
  /** Stops taking wake-ups and claiming, waits for attempts in flight, and records them. */
  stop(): Promise<void>;
  /** Stops trying to record attempts: their leases expire, and other workers settle them. */
  abandon(): void;
  readonly inFlight: () => number;
  /** Number of calls to webhook endpoints under way. */
  readonly webhooksInFlight: () => number;
  /** Number of provider accounts whose calls wait, by provider and state. */
  readonly circuitStates: Breakers['counts'];
  /** How late the workers are, according to the last sweep. */
  readonly overdue: () => Overdue;
};

type TaskName = ClaimTaskName | ReceiptTaskName | WebhookTaskName | UpkeepTaskName | AccountTaskName;

/** Time until the policies of tenants that are new to this worker are read, all in one query. */
const UNKNOWN_POLICY_MS = 50;

/** Assembles the worker and starts its periodic tasks. Opens no connections itself. */
export function buildWorker(deps: WorkerDeps): Worker {
  const { store, events, settings, contextOf } = deps;
  const { deadlineMs, leaseMs, inFlightMax, sweepMs } = settings;
  // Tests break this (mutant: process-name): a restarted worker does not begin again what it had claimed before.
  const identity = newProcessName(settings.name);
  let stopping = false;
  const isStopping = (): boolean => stopping;
  let overdue: Overdue = { oldestDueSeconds: 0, oldestScheduledSeconds: 0 };
  const aborted = new AbortController();
  const stopped = new AbortController();
  // Started below, once all parts exist that they run.
  const tasks = createTasks<TaskName>(startTaskWith(events));
  const { wake } = tasks;

  const queue = createFairQueue<Wake>({
    queuedPerTenantMax: settings.queuedPerTenantMax,
    queuedMax: settings.queuedMax,
    slots: inFlightMax,
    onUnknown: () => wake('policies', UNKNOWN_POLICY_MS),
  });
  const breakers = createBreakers(monotonicMs);
  const accounts = createAccounts(store, deps.credentials, deps.replacedCredentials);
  const expectedReceipts = createExpectedWork();
  const expectedDeliveries = createExpectedWork();
  const contents = createContents({
    store,
    bytesMax: settings.largeContentBytesMax,
    // With this wait added, the call still ends well within the lease.
    waitMsMax: leaseMs / 4,
  });
  const deliver = createDeliver({
    accounts,
    contents,
    breakers,
    contextOf,
    receiptUrlOf: (account) => receiptUrlFor(account, deps.receipts),
    unsubscribeUrlOf: (message) => unsubscribeUrlFor(message, deps.unsubscribing),
    deadlineMs,
    leaseMs,
    onAdapterFault: events.adapterFault,
    isStopping,
  });
  const receiptTimeouts = createReceiptTimeouts({
    store,
    onFailure: events.recordDelayed,
    monotonicMs,
    signal: aborted.signal,
  });
  const recorder = createRecorder({
    receiptTimeouts,
    store,
    failoverFacts: createFailoverFacts({ store, onFailure: events.recordDelayed, signal: aborted.signal }),
    random: Math.random,
    onFailedOver: events.failedOver,
    onFailure: events.recordDelayed,
    signal: aborted.signal,
    inFlightMax,
  });
  const lookups = createLookups({
    store,
    accounts,
    contextOf,
    deadlineMs,
    leaseMs,
    isBlocked: (accountId) => breakers.blockedUntil(accountId) > 0,
    onAnswered: events.lookedUp,
    onPaused: events.lookupsPaused,
    onUnstorable: events.lookupUnstorable,
    onFailed: (error) => events.taskFailed('lookups', error),
    onAdapterFault: events.adapterFault,
    onEnded() {
      wake('receipts');
      wake('lookups');
    },
    epochMs,
    monotonicMs,
  });
  const attemptFinished = afterAttempt({
    events,
    breakers,
    expected: [expectedReceipts, expectedDeliveries],
    lookups,
    noteAccount: createAccountStatus({ store, breakers, onMoved: events.accountMoved }),
    wake,
  });
  const looks = createDueLooks({ store, monotonicMs });
  const resolve = createResolveWaiting({
    store,
    endedUncalled: events.endedUncalled,
    failedOver: events.failedOver,
  });
  const dispatcher = createDispatcher({
    queue,
    store,
    resolve,
    dueFrom: looks.dueFrom,
    breakers,
    deliver,
    recorder,
    worker: identity,
    leaseMs,
    inFlightMax,
    events: { ...events, attemptFinished },
  });
  const noteHealth = createHealthNotes(store.noteAccountHealth, (error) =>
    events.taskFailed('account_health', error),
  );
  breakers.onHealth((accountId, provider, health) => {
    events.accountHealth(accountId, provider, health);
    noteHealth(accountId, health);
    if (health !== 'healthy') return;
    // Resumes messages that wait for the account; the sweep finds those that were postponed because of it.
    dispatcher.accountChanged(accountId);
    wake('sweep');
  });
  const isSending = (): boolean => dispatcher.isBusy;

  const pace = createReceiptPace({ expected: expectedReceipts, isSending, signal: stopped.signal });
  const applier = createReceiptApplier({
    store,
    pace,
    isSending,
    onApplied(results) {
      events.receiptsSettled(results);
      traceReceipts(results);
      if (results.length > 0) wake('numbering', NUMBERING_GAP_MS);
    },
    onFailed: (error) => events.taskFailed('receipts', error),
    isStopping,
  });
  const reader =
    deps.receipts &&
    createReceiptReader({
      ...deps.receipts,
      loadIds: createIdLoader(store.messageIdKey),
      store,
      accounts,
      contextOf,
      deadlineMs,
      onRead: events.receiptCallRead,
      onAdapterFault: events.adapterFault,
      pace,
      onSettled: () => wake('receipts'),
      onMore: wakeReading,
      onFailed: (error) => events.taskFailed('receipt_calls', error),
    });

  function wakeReading(): void {
    wake('receipt_calls', reader?.gapMs(isSending()));
  }

  const moves = createTenantMoves({ store, onReleased: () => wake('sweep'), isStopping });
  const moving = { store, resolve, mark: dispatcher.mark, isStopping };
  const delayed = createDelayedMoves({
    ...moving,
    dueFrom: looks.dueFrom,
    whyClosed: dispatcher.whyClosed,
  });
  const scheduled = createScheduledMoves(moving);
  const closed = createClosedLanes({ review: dispatcher.review, isStopping });

  const partitionMaker = createPartitionMaker({
    store,
    onMaintained: events.maintained,
    monotonicMs,
  });

  const webhooks = createWebhooks({
    ...deps.webhooks,
    isSending,
    expected: expectedDeliveries,
    events,
    onDue: () => wake('webhook_deliveries'),
    onBehind: (delayMs) => wake('webhook_matching', delayMs),
  });

  tasks.start({
    ...claimTasks({
      store,
      queue,
      looks,
      dispatcher,
      moves,
      scheduled,
      delayed,
      closed,
      sweepMs,
      onSwept: (swept) => (overdue = swept),
      wake,
    }),
    ...receiptTasks({
      store,
      applier,
      reader,
      lookups,
      events,
      sweepMs,
      whyClosed: dispatcher.whyClosed,
      mark: dispatcher.mark,
      isStopping,
      wake,
    }),
    ...webhookTasks(webhooks),
    ...upkeepTasks({
      store,
      partitionMaker,
      events,
      onToMatch: webhooks.matchSoon,
      onBraked(entry) {
        events.brakeApplied(entry);
        moves.add(entry.tenantId);
        wake('tenant_moves');
        wake('numbering');
      },
      forgetUnused() {
        deps.credentials.forgetStale();
        deps.replacedCredentials.forgetStale();
        webhooks.forgetStale();
        for (const expected of [expectedReceipts, expectedDeliveries]) expected.forgetIdle(monotonicMs());
      },
      isStopping,
      wake,
    }),
    ...accountTasks({
      store,
      accounts,
      breakers,
      contextOf,
      deadlineMs,
      isStopping,
      onVerified: events.accountVerified,
      onAdapterFault: events.adapterFault,
    }),
  });

  return {
    identity,
    inFlight: () => dispatcher.inFlight,
    webhooksInFlight: webhooks.inFlight,
    circuitStates: breakers.counts,
    overdue: () => overdue,
    wake(payload, kind) {
      if (kind === RECEIPT_WAKE) wakeReading();
      else for (const one of decodeWakes(payload, kind)) dispatcher.offer(one);
    },
    notice: onNotice({
      store,
      breakers,
      credentials: [deps.credentials, deps.replacedCredentials],
      dispatcher,
      moves,
      partitionMaker,
      receiptTimeouts,
      webhooks,
      events,
      wake,
    }),
    streamRecreated() {
      events.streamRecreated();
      wake('sweep');
    },
    async stop() {
      stopping = true;
      stopped.abort();
      // From here on nothing is claimed, however long a task takes to end, and no call begins.
      const ended = dispatcher.stop();
      const hungUp = lookups.stop();
      await Promise.all([ended, hungUp, webhooks.stop(), tasks.stop()]);
      // Waits for work that was taken just before the stop.
      await Promise.all([lookups.stop(), webhooks.stop(), reader?.drain(), applier.drain()]);
    },
    abandon() {
      aborted.abort();
      webhooks.abandon();
    },
  };
}
