import type { DatabaseMetrics } from '#core/platform/telemetry/database-metrics.ts';
import { paced } from '#core/platform/telemetry/paced.ts';
import type { GaugeStore } from '#core/store/upkeep/gauges.ts';
import type { WebhookStore } from '#core/store/webhooks/webhook-store.ts';

type WebhookGauges = Pick<WebhookStore, 'oldestUnmatchedSeconds' | 'oldestDueSeconds' | 'endpointCounts'>;

/** Lets the gauges show what the database holds. Each read is paced and, where several gauges show it, shared. */
export function sampleDatabase(metrics: DatabaseMetrics, gauges: GaugeStore, webhooks: WebhookGauges): void {
  const totals = paced(gauges.messageTotals);
  metrics.backlog.from(async () => (await totals()).backlog);
  metrics.scheduled.from(async () => (await totals()).scheduled);
  metrics.braked.from(async () => (await totals()).braked);
  metrics.brakedChannels.from(
    paced(async () =>
      (await gauges.brakedChannels()).map(({ level, channels }) => ({ labels: { level }, value: channels })),
    ),
  );
  metrics.partitionsDue.from(
    paced(async () =>
      (await gauges.partitionsDue()).map(({ task, partitions }) => ({ labels: { task }, value: partitions })),
    ),
  );
  metrics.oldestDeletion.from(paced(gauges.oldestDeletionSeconds));
  metrics.oldestReceipt.from(paced(gauges.oldestReceiptSeconds));
  metrics.oldestChange.from(paced(gauges.oldestChangeSeconds));
  metrics.oldestUsage.from(paced(gauges.oldestUsageSeconds));
  metrics.webhooksOldestUnmatched.from(paced(webhooks.oldestUnmatchedSeconds));
  metrics.webhooksOldestDue.from(paced(webhooks.oldestDueSeconds));
  metrics.webhookEndpoints.from(
    paced(async () =>
      (await webhooks.endpointCounts()).map(({ status, endpoints }) => ({
        labels: { status },
        value: endpoints,
      })),
    ),
  );
}
