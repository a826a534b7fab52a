import type { Task } from '../tasks.ts';
import type { Webhooks } from './webhooks.ts';

export type WebhookTaskName =
  | 'webhook_matching'
  | 'webhooks_behind'
  | 'webhook_deliveries'
  | 'webhook_changes'
  | 'endpoint_tests';

/** Interval of the queries for due deliveries. */
const CLAIM_MS = 500;
/** Interval of the queries for unmatched events, as after a crash or a lost hand-over. */
const BEHIND_MS = 5_000;
/** Interval of the queries for changes of the endpoints that are being called, in case a notice is lost. */
const CHANGED_MS = 2_000;
/** Short, because a person waits for the answer. */
const TESTS_MS = 1_000;

export function webhookTasks(webhooks: Webhooks): Record<WebhookTaskName, Task> {
  return {
    webhook_matching: { everyMs: BEHIND_MS, work: webhooks.match },
    webhooks_behind: { everyMs: BEHIND_MS, work: webhooks.findBehind },
    webhook_deliveries: { everyMs: CLAIM_MS, work: webhooks.claim },
    webhook_changes: { everyMs: CHANGED_MS, work: webhooks.findChanged },
    endpoint_tests: { everyMs: TESTS_MS, work: webhooks.callTested },
  };
}
