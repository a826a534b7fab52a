import { HOUR_MS, MINUTE_MS } from '#core/domain/duration.ts';
import type { Breaker } from '#core/domain/breaker.ts';
import type { ChangeOfEndpoint } from '#core/domain/notice.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { AuditEntry } from '#core/domain/audit-entry.ts';
import { createFairQueue } from '#core/domain/fair-queue.ts';
import { isUuid, newProcessName } from '#core/domain/ids.ts';
import { createIdLoader } from '#core/domain/id-loader.ts';
import { createExpectedWork } from '#core/domain/expected-work.ts';
import type { ReceiptKey } from '#core/domain/receipt-token.ts';
import { decodeWakes, RECEIPT_WAKE, type Wake } from '#core/domain/wake.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { ProviderCall } from '#providers/context.ts';
import { askableProviders } from '#providers/registry.ts';
import type { ProviderContext } from '#providers/provider.ts';
import { createAccountStatus } from './accounts/account-status.ts';
import { createAccounts } from './accounts/accounts.ts';
import { createBreakers, type Breakers } from './accounts/breakers.ts';
import type { Credentials } from './accounts/credentials.ts';
import { createContents } from './deliver/contents.ts';
import { createDeliver } from './deliver/deliver.ts';
import { createClosedLanes } from './claim/closed-lanes.ts';
import { createDelayedMoves } from './claim/delayed-moves.ts';
import { countUsage, COUNTING_MS } from './upkeep/count-usage.ts';
import { maintain } from './upkeep/maintain.ts';
import { createPartitionMaker } from './upkeep/partition-maker.ts';
import { numberEvents, NUMBERING_GAP_MS } from './upkeep/number-events.ts';
import { expireReceipts } from './receipts/expire-receipts.ts';
import { createBrakeChannels } from './upkeep/brake-channels.ts';
import { createDispatcher } from './claim/dispatcher.ts';
import { createDueLooks } from './claim/due-looks.ts';
import type { WorkerEvents } from './events.ts';
import { refreshPolicies } from './claim/policies.ts';
import { createFailoverFacts } from './deliver/failover-facts.ts';
import { createReceiptTimeouts } from './deliver/receipt-timeouts.ts';
import { createRecorder } from './deliver/recorder.ts';
import { createLookups } from './lookups/lookups.ts';
import { createReceiptApplier } from './receipts/apply-receipts.ts';
import { createReceiptReader } from './receipts/receipt-calls.ts';
import { createReceiptPace } from './receipts/receipt-pace.ts';
import { receiptUrlFor } from './receipts/receipt-url-for.ts';
import { failOverSilent } from './receipts/silent-messages.ts';
import { unsubscribeUrlFor, type UnsubscribeSettings } from './deliver/unsubscribe-url-for.ts';
import { traceReceipts } from './receipts/trace-receipts.ts';
import { repeat, type Repeating } from './repeat.ts';
import { sweep, type Overdue } from './claim/sweep.ts';
import { createScheduledMoves } from './claim/scheduled-moves.ts';
import { createTenantMoves } from './claim/tenant-moves.ts';
import { verifyRequested } from './accounts/verify.ts';
import { startWebhooks, type StartWebhooksDeps } from './webhooks/start-webhooks.ts';

export type WorkerSettings = {
  /** A name for people; other processes may have the same one. */
  readonly name: string;
  /** The most provider calls at once. */
  readonly inFlightMax: number;
  /** The most wake-ups of one tenant that are kept in memory; further messages stay in the database. */
  readonly queuedPerTenantMax: number;
  /** The most wake-ups of all tenants that are kept in memory. */
  readonly queuedMax: number;
  /** Total time of one provider call in milliseconds, unless the provider asks for more. */
  readonly deadlineMs: number;
  /** Length of a claim's lease in milliseconds; an attempt that is not recorded by then counts as lost. */
  readonly leaseMs: number;
  /** The most bytes in memory of contents that are stored apart from their messages. */
  readonly largeContentBytesMax: number;
  /** Time between two sweeps, in milliseconds. */
  readonly sweepMs: number;
};

/** Settings of receipt URLs. */
export type ReceiptSettings = {
  readonly publicBaseUrl: string;
  /** Key of the tokens in receipt URLs. */
  readonly receiptKey: ReceiptKey;
};

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
  /** Absent: this worker calls no webhook endpoint. */
  readonly webhooks?:
    | Pick<StartWebhooksDeps, 'store' | 'secrets' | 'http' | 'allowHttp' | 'settings'>
    | undefined;
  readonly events: WorkerEvents;
  readonly settings: WorkerSettings;
};

/** The content of a change notice; `changed` says what changed about an endpoint. */
type WorkerNotice = {
  readonly tenantId?: string;
  readonly id?: string;
  readonly changed?: ChangeOfEndpoint;
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

type Health = Breaker['health'];

/** Time between two searches for overdue receipts. */
const LATE_RECEIPTS_MS = 10_000;
/** Time between two searches for messages that go on to another account after a receipt timeout. */
const SILENT_MS = 1_000;
const CONTENTS_AT_ONCE = 100;
const NUMBERING_MS = 1_000;
const TENANT_RECHECK_MS = 400;
/** Time until the policies of tenants that are new to this worker are read, all in one query. */
const UNKNOWN_POLICY_MS = 50;
/** Time until the next try while a long read, such as a backup, or a message that is not settled yet holds up the task. */
const BUSY_RETRY_MS = 5 * MINUTE_MS;

/** Assembles the worker and starts its periodic tasks. Opens no connections itself. */
export function buildWorker(deps: WorkerDeps): Worker {
  const { store, events, settings, contextOf } = deps;
  const now = Date.now;
  // Tests break this (mutant: process-name): a restarted worker does not begin again what it had claimed before.
  const identity = newProcessName(settings.name);
  let stopping = false;
  let overdue: Overdue = { oldestDueSeconds: 0, oldestScheduledSeconds: 0 };
  const aborted = new AbortController();
  const stopped = new AbortController();

  const queue = createFairQueue<Wake>(
    settings.queuedPerTenantMax,
    settings.queuedMax,
    settings.inFlightMax,
    () => tasks.policies.wake(UNKNOWN_POLICY_MS),
  );
  const breakers = createBreakers(healthChanged, () => performance.now());
  const accounts = createAccounts(store, deps.credentials, deps.replacedCredentials);
  const noteAccount = createAccountStatus({ store, breakers, onMoved: events.accountMoved });
  const contents = createContents({
    store,
    bytesMax: settings.largeContentBytesMax,
    // With this wait added, the call still ends well within the lease.
    waitMsMax: settings.leaseMs / 4,
  });
  const loadIds = createIdLoader(store.messageIdKey);
  const deliver = createDeliver({
    accounts,
    contents,
    breakers,
    contextOf,
    receiptUrlOf: (account) => receiptUrlFor(account, deps.receipts),
    unsubscribeUrlOf: (message) => unsubscribeUrlFor(message, deps.unsubscribing),
    deadlineMs: settings.deadlineMs,
    leaseMs: settings.leaseMs,
    onAdapterFault: events.adapterFault,
    isStopping: () => stopping,
  });
  const receiptTimeouts = createReceiptTimeouts({
    store,
    onFailure: events.recordDelayed,
    now: () => performance.now(),
    signal: aborted.signal,
  });
  const recorder = createRecorder({
    receiptTimeouts,
    store,
    failoverFacts: createFailoverFacts({ store, onFailure: events.recordDelayed, signal: aborted.signal }),
    now,
    random: Math.random,
    onFailedOver: events.failedOver,
    onFailure: events.recordDelayed,
    signal: aborted.signal,
    inFlightMax: settings.inFlightMax,
  });
  const looks = createDueLooks({ store, now: () => performance.now() });
  const dispatcher = createDispatcher({
    queue,
    store,
    dueFrom: looks.dueFrom,
    breakers,
    deliver,
    recorder,
    worker: identity,
    leaseMs: settings.leaseMs,
    inFlightMax: settings.inFlightMax,
    events: {
      ...events,
      attemptFinished(message, delivered, settlement) {
        const { accountId } = message;
        events.attemptFinished(
          message,
          delivered,
          settlement,
          accountId === null ? undefined : breakers.closedForMs(accountId),
        );
        for (const expected of [expectedReceipts, expectedDeliveries])
          expected.called(message.tenantId, performance.now());
        if (isThrottled(delivered.outcome) && message.accountId !== null)
          lookups.yieldToSends(message.accountId);
        noteAccount(message, delivered.outcome).catch((error: unknown) =>
          events.taskFailed('account_status', error),
        );
        for (const receipt of settlement?.receipts ?? []) tasks.receipts.wake(receipt.afterMs + 5);
        tasks.numbering.wake(NUMBERING_GAP_MS);
      },
    },
  });

  const lookups = createLookups({
    store,
    accounts,
    contextOf,
    deadlineMs: settings.deadlineMs,
    leaseMs: settings.leaseMs,
    isBlocked: (accountId) => breakers.blockedUntil(accountId) > 0,
    onAnswered: events.lookedUp,
    onPaused: events.lookupsPaused,
    onUnstorable: events.lookupUnstorable,
    onFailed: (error) => events.taskFailed('lookups', error),
    onAdapterFault: events.adapterFault,
    onEnded() {
      tasks.receipts.wake();
      tasks.lookups.wake();
    },
    now,
  });

  const expectedReceipts = createExpectedWork();
  const expectedDeliveries = createExpectedWork();
  const pace = createReceiptPace({
    expected: expectedReceipts,
    isSending: () => dispatcher.isBusy,
    signal: stopped.signal,
  });
  const receiptApplier = createReceiptApplier({
    store,
    pace,
    isSending: () => dispatcher.isBusy,
    onApplied(results) {
      events.receiptsSettled(results);
      traceReceipts(results);
      if (results.length > 0) tasks.numbering.wake(NUMBERING_GAP_MS);
    },
    onFailed: (error) => events.taskFailed('receipts', error),
    isStopping: () => stopping,
  });
  const receiptReader =
    deps.receipts &&
    createReceiptReader({
      ...deps.receipts,
      loadIds,
      store,
      accounts,
      contextOf,
      deadlineMs: settings.deadlineMs,
      onRead: events.receiptCallRead,
      onAdapterFault: events.adapterFault,
      pace,
      onSettled: () => tasks.receipts.wake(),
      onMore: wakeReading,
      onFailed: (error) => events.taskFailed('receipt_calls', error),
      now,
    });
  const moves = createTenantMoves({
    store,
    onReleased: () => tasks.sweep.wake(),
    isStopping: () => stopping,
  });
  const delayed = createDelayedMoves({
    store,
    dueFrom: looks.dueFrom,
    whyClosed: dispatcher.whyClosed,
    mark: dispatcher.mark,
    endedUncalled: events.endedUncalled,
    failedOver: events.failedOver,
    isStopping: () => stopping,
  });
  const brakeChannels = createBrakeChannels(store);
  const closed = createClosedLanes({ review: dispatcher.review, isStopping: () => stopping });
  const scheduled = createScheduledMoves({
    store,
    mark: dispatcher.mark,
    endedUncalled: events.endedUncalled,
    failedOver: events.failedOver,
    isStopping: () => stopping,
  });

  /** @param work calls its argument after each full batch: a task that has much to do for hours does not fail. */
  const partitionMaker = createPartitionMaker({
    store,
    onMaintained: events.maintained,
    now: () => performance.now(),
  });

  function task(
    name: string,
    everyMs: number,
    work: (onBatch: () => void) => Promise<void | 'unfinished'>,
  ): Repeating {
    events.taskBegun(name);
    const succeeded = (): void => events.taskSucceeded(name);
    const run = async (): Promise<void> => {
      if ((await work(succeeded)) !== 'unfinished') succeeded();
    };
    return repeat(run, { everyMs, onError: (error) => events.taskFailed(name, error) });
  }
  const tasks = {
    sweep: task('sweep', settings.sweepMs, async () => {
      overdue = await sweep(looks, dispatcher, moves, scheduled, delayed, closed, now());
      tasks.moves.wake();
      tasks.delayed.wake();
      tasks.closed.wake();
      tasks.scheduled.wake();
    }),
    moves: task('tenant_moves', HOUR_MS, moves.run),
    delayed: task('delayed_moves', HOUR_MS, delayed.run),
    closed: task('closed_lanes', HOUR_MS, closed.run),
    scheduled: task('scheduled_moves', HOUR_MS, scheduled.run),
    receipts: task('receipts', settings.sweepMs, receiptApplier.apply),
    receiptCalls: task('receipt_calls', settings.sweepMs, async (onBatch) => {
      for (;;) {
        const read = await receiptReader?.read();
        if (read?.isFull !== true || stopping) return;
        onBatch();
      }
    }),
    lateReceipts: task('late_receipts', LATE_RECEIPTS_MS, (onBatch) =>
      expireReceipts({
        store,
        onBatch,
        askable: askableProviders(),
        onSilent: events.messagesSilent,
        onSeen: () => tasks.lookups.wake(),
      }),
    ),
    silent: task('silent_messages', SILENT_MS, (onBatch) =>
      failOverSilent({
        store,
        onBatch,
        whyClosed: dispatcher.whyClosed,
        mark: dispatcher.mark,
        onFailedOver: events.failedOver,
        isStopping: () => stopping,
      }),
    ),
    lookups: task('lookups', settings.sweepMs, () => lookups.look()),
    numbering: task('numbering', NUMBERING_MS, async (onBatch) => {
      const ended = await numberEvents({
        store,
        onBatch,
        onNumbered: events.numbered,
        onToMatch: (tenantIds) => webhooks?.matchSoon(tenantIds),
        isStopping: () => stopping,
      });
      if (ended === 'early') tasks.numbering.wake(NUMBERING_GAP_MS);
    }),
    usage: task('usage', COUNTING_MS, (onBatch) =>
      countUsage({ store, brakeChannels, onBraked, onBatch, isStopping: () => stopping }),
    ),
    policies: task('policies', 2_000, () => refreshPolicies(store, queue)),
    verify: task('verify', 5_000, () =>
      verifyRequested({
        store,
        accounts,
        breakers,
        contextOf,
        deadlineMs: settings.deadlineMs,
        isStopping: () => stopping,
        onVerified: events.accountVerified,
        onAdapterFault: events.adapterFault,
      }),
    ),
    forget: task('forget', MINUTE_MS, () => {
      deps.credentials.forgetStale();
      deps.replacedCredentials.forgetStale();
      webhooks?.forgetStale();
      for (const expected of [expectedReceipts, expectedDeliveries]) expected.forgetIdle(performance.now());
      return store.forgetReplacedSecrets();
    }),
    contents: task('contents', MINUTE_MS, async (onBatch) => {
      for (;;) {
        if ((await store.settleContents(CONTENTS_AT_ONCE)) < CONTENTS_AT_ONCE || stopping) return;
        onBatch();
      }
    }),
    partitions: task('partitions', HOUR_MS, partitionMaker.make),
    maintain: task('maintain', HOUR_MS, () =>
      maintain({
        store,
        onMaintained: events.maintained,
        retrySoon: () => tasks.maintain.wake(BUSY_RETRY_MS),
      }),
    ),
  };

  const webhooks =
    deps.webhooks &&
    startWebhooks({
      ...deps.webhooks,
      isSending: () => dispatcher.isBusy,
      expected: expectedDeliveries,
      events,
      task,
    });

  function onBraked(entry: AuditEntry): void {
    events.brakeApplied(entry);
    moves.add(entry.tenantId);
    tasks.moves.wake();
    tasks.numbering.wake();
  }

  function wakeReading(): void {
    tasks.receiptCalls.wake(receiptReader?.gapMs(dispatcher.isBusy));
  }

  function healthChanged(accountId: string, provider: string, health: Health): void {
    events.accountHealth(accountId, provider, health);
    store
      .noteAccountHealth(accountId, health)
      .catch((error: unknown) => events.taskFailed('account_health', error));
    if (health === 'healthy') recovered(accountId);
  }

  /** Resumes messages that wait for the account; the sweep finds those that were postponed because of it. */
  function recovered(accountId: string): void {
    dispatcher.accountChanged(accountId);
    tasks.sweep.wake();
  }

  function noteTenantChange(tenantId: string): void {
    const run = (): void => {
      moves.add(tenantId);
      tasks.moves.wake();
      tasks.sweep.wake();
      tasks.policies.wake();
    };
    run();
    // Its retention may be longer now, and partitions are made that far ahead.
    tasks.partitions.wake(partitionMaker.gapMs());
    // Runs once more for messages that were being accepted at that moment.
    setTimeout(run, TENANT_RECHECK_MS).unref();
  }

  return {
    identity,
    inFlight: () => dispatcher.inFlight,
    webhooksInFlight: () => webhooks?.inFlight() ?? 0,
    circuitStates: breakers.counts,
    overdue: () => overdue,
    wake(payload, kind) {
      if (kind === RECEIPT_WAKE) wakeReading();
      else for (const wake of decodeWakes(payload, kind)) dispatcher.offer(wake);
    },
    notice(kind, { tenantId, id, changed = 'secrets' }) {
      if (kind === 'account') {
        if (id !== undefined) {
          breakers.reset(id);
          deps.credentials.invalidate(id);
          deps.replacedCredentials.invalidate(id);
          dispatcher.accountChanged(id);
          store
            .resumeLookups(id)
            .then(() => tasks.lookups.wake())
            .catch((error: unknown) => events.taskFailed('lookups', error));
        }
        tasks.verify.wake();
        tasks.sweep.wake();
      }
      // Test messages may be due.
      if (kind === 'clock') tasks.sweep.wake();
      if (kind === 'route' && tenantId !== undefined) receiptTimeouts.forget(tenantId);
      if (kind === 'endpoint' && id !== undefined && isUuid(id)) webhooks?.endpointChanged(id, changed);
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
      stopped.abort();
      // From here on nothing is claimed, however long a task takes to end, and no call begins.
      const ended = dispatcher.stop();
      const hungUp = lookups.stop();
      const hooks = webhooks?.stop();
      await Promise.all([ended, hungUp, hooks, ...Object.values(tasks).map((repeating) => repeating.stop())]);
      // Waits for work that was taken just before the stop.
      await Promise.all([lookups.stop(), receiptReader?.drain(), receiptApplier.drain()]);
    },
    abandon() {
      aborted.abort();
      webhooks?.abandon();
    },
  };
}

function isThrottled(outcome: AttemptOutcome): boolean {
  return 'failure' in outcome && outcome.failure.class === 'provider_throttled';
}
