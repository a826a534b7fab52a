import type { ChangeOfEndpoint } from '#core/domain/endpoint-notice.ts';
import type { Repeating } from '../repeat.ts';
import { createWebhooks, type WebhooksDeps } from './webhooks.ts';

export type StartWebhooksDeps = Omit<WebhooksDeps, 'onDue' | 'onBehind'> & {
  /** Begins a task that repeats. */
  readonly task: (name: string, everyMs: number, work: () => Promise<void>) => Repeating;
};

/** Endpoints are told of events as long as this runs. */
export type RunningWebhooks = {
  /** These tenants have new events and endpoints. */
  matchSoon(tenantIds: readonly string[]): void;
  endpointChanged(endpointId: string, changed: ChangeOfEndpoint): void;
  forgetStale(): void;
  /** Lets calls under way end, and records them. */
  stop(): Promise<void>;
  /** Stops trying to record. */
  abandon(): void;
  readonly inFlight: () => number;
};

/** Between two looks for what is due. */
const CLAIM_MS = 500;
/** Between two looks for what nobody has matched: after a crash, or when a hand-over was missed. */
const BEHIND_MS = 5_000;
/** Between two looks for changes of endpoints that are being called, for as long as notices do not come. */
const CHANGED_MS = 2_000;
/** Somebody waits for the answer. */
const TESTS_MS = 1_000;

export function startWebhooks({ task, ...deps }: StartWebhooksDeps): RunningWebhooks {
  const webhooks = createWebhooks({
    ...deps,
    onDue: () => tasks.deliveries.wake(),
    onBehind: (delayMs) => tasks.matching.wake(delayMs),
  });
  const tasks = {
    matching: task('webhook_matching', BEHIND_MS, webhooks.match),
    behind: task('webhooks_behind', BEHIND_MS, webhooks.findBehind),
    deliveries: task('webhook_deliveries', CLAIM_MS, webhooks.claim),
    changes: task('webhook_changes', CHANGED_MS, webhooks.findChanged),
    tests: task('endpoint_tests', TESTS_MS, webhooks.callTested),
  };
  return {
    matchSoon: webhooks.matchSoon,
    endpointChanged(endpointId, changed) {
      if (changed === 'test') tasks.tests.wake();
      else webhooks.endpointChanged(endpointId, changed);
    },
    forgetStale: webhooks.forgetStale,
    async stop() {
      // Nothing is begun any more, however long a task takes to end.
      const ended = webhooks.stop();
      await Promise.all([ended, ...Object.values(tasks).map((repeating) => repeating.stop())]);
      // What was claimed at that very moment.
      await webhooks.stop();
    },
    abandon: webhooks.abandon,
    inFlight: webhooks.inFlight,
  };
}
