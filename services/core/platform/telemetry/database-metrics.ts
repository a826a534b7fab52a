import type { Registry } from 'prom-client';
import { PARTITION_TASKS } from '#core/domain/storage/partition-task.ts';
import { BRAKE_LEVELS } from '#core/domain/tenant/brake.ts';
import { ENDPOINT_STATUSES } from '#core/domain/webhooks/endpoint-state.ts';
import { sampled, sampledSeries } from './sampled-metrics.ts';

/** Creates the gauges of what the database holds, which every worker shows alike. */
export function createDatabaseMetrics(registry: Registry) {
  return {
    backlog: sampled(
      registry,
      'despatch_backlog_messages',
      'Messages accepted and not finished, of all tenants but suspended ones, without those that are scheduled or wait behind a brake; every worker shows the same.',
    ),
    scheduled: sampled(
      registry,
      'despatch_scheduled_messages',
      'Messages that wait for the time that their sender named, of all tenants but suspended ones; every worker shows the same.',
    ),
    braked: sampled(
      registry,
      'despatch_braked_messages',
      'Messages of channels that an abuse brake slows or holds, accepted and not finished, of all tenants but suspended ones; every worker shows the same.',
    ),
    brakedChannels: sampledSeries(
      registry,
      {
        name: 'despatch_braked_channels',
        help: 'Channels of tenants that an abuse brake slows or holds now, of all tenants but suspended ones; every worker shows the same.',
        labelNames: ['level'],
      },
      BRAKE_LEVELS.map((level) => ({ level })),
    ),
    oldestReceipt: sampled(
      registry,
      'despatch_receipts_oldest_seconds',
      'For how long the oldest call of a vendor has waited to be read, or the oldest receipt to be applied; every worker shows the same. Calls that wait for usable settings of their account do not count.',
    ),
    oldestChange: sampled(
      registry,
      'despatch_events_oldest_seconds',
      "For how long the oldest event has waited for its number in its tenant's feed; every worker shows the same.",
    ),
    oldestUsage: sampled(
      registry,
      'despatch_usage_oldest_seconds',
      'For how long the oldest move of messages has waited to be counted as usage; every worker shows the same.',
    ),
    webhooksOldestUnmatched: sampled(
      registry,
      'despatch_webhook_oldest_unmatched_seconds',
      'For how long the oldest event that has its number has waited to be matched with the webhook endpoints of its tenant; every worker shows the same.',
    ),
    webhooksOldestDue: sampled(
      registry,
      'despatch_webhook_oldest_due_seconds',
      'For how long the oldest delivery has waited that a worker should have taken; what its endpoint holds back does not count. Every worker shows the same.',
    ),
    webhookEndpoints: sampledSeries(
      registry,
      {
        name: 'despatch_webhook_endpoints',
        help: 'Webhook endpoints of all tenants that are in this state; every worker shows the same.',
        labelNames: ['status'],
      },
      ENDPOINT_STATUSES.map((status) => ({ status })),
    ),
    partitionsDue: sampledSeries(
      registry,
      {
        name: 'despatch_partitions_due',
        help: 'Partitions that are to be made or dropped; `blocked` while rows of their week are in the default partition. Every worker shows the same.',
        labelNames: ['task'],
      },
      PARTITION_TASKS.map((task) => ({ task })),
    ),
    oldestDeletion: sampled(
      registry,
      'despatch_deletion_oldest_seconds',
      'For how long the deletion of a tenant that began first has been under way; every worker shows the same.',
    ),
  };
}

export type DatabaseMetrics = ReturnType<typeof createDatabaseMetrics>;
