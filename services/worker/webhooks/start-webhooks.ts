import type { ChangeOfEndpoint } from '#core/domain/tenant/notice.ts';
import type { Repeating } from '../repeat.ts';
import { createWebhooks, type WebhooksDeps } from './webhooks.ts';

export type StartWebhooksDeps = Omit<WebhooksDeps, 'onDue' | 'onBehind'> & {
  /** Starts a repeating task. */
  readonly task: (name: string, everyMs: number, work: () => Promise<void>) => Repeating;
};

/** The running delivery of events to endpoints. */
export type RunningWebhooks = {
  /** Notes tenants that have new events and endpoints. */
  matchSoon(tenantIds: readonly string[]): void;
  endpointChanged(endpointId: string, changed: ChangeOfEndpoint): void;
  forgetStale(): void;
  /** Waits for the calls under way, and records them. */
  stop(): Promise<void>;
  /** Stops retrying to record. */
  abandon(): void;
  readonly inFlight: () => number;
};

/** Interval of the queries for due deliveries. */
const CLAIM_MS = 500;
/** Interval of the queries for unmatched events, as after a crash or a lost hand-over. */
const BEHIND_MS = 5_000;
/** Interval of the queries for changes of the endpoints that are being called, in case a notice is lost. */
const CHANGED_MS = 2_000;
/** Short, because a person waits for the answer. */
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
      // From here on no new call begins, even if a task takes long to end.
      const ended = webhooks.stop();
      await Promise.all([ended, ...Object.values(tasks).map((repeating) => repeating.stop())]);
      // Stops again for the claims that a task took while it was ending.
      await webhooks.stop();
    },
    abandon: webhooks.abandon,
    inFlight: webhooks.inFlight,
  };
}
