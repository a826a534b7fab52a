import { expect, test } from 'vitest';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import { sampleDatabase } from './sample-database.ts';

function setup() {
  const reads: Record<string, number> = {};
  const held = Promise.withResolvers<undefined>();
  const reading =
    <T>(name: string, value: T) =>
    async (): Promise<T> => {
      reads[name] = (reads[name] ?? 0) + 1;
      await held.promise;
      return value;
    };
  const metrics = createWorkerMetrics();
  sampleDatabase(
    metrics,
    {
      messageTotals: reading('messageTotals', { backlog: 1, scheduled: 2, braked: 3 }),
      brakedChannels: reading('brakedChannels', [{ level: 'held', channels: 4 }]),
      partitionsDue: reading('partitionsDue', [{ task: 'drop', partitions: 5 }]),
      oldestDeletionSeconds: reading('oldestDeletionSeconds', 6),
      oldestReceiptSeconds: reading('oldestReceiptSeconds', 7),
      oldestChangeSeconds: reading('oldestChangeSeconds', 8),
      oldestUsageSeconds: reading('oldestUsageSeconds', 9),
    },
    {
      oldestUnmatchedSeconds: reading('oldestUnmatchedSeconds', 10),
      oldestDueSeconds: reading('oldestDueSeconds', 11),
      endpointCounts: reading('endpointCounts', [{ status: 'active', endpoints: 12 }]),
    },
  );
  return { metrics, reads, answer: () => held.resolve(undefined) };
}

test('each read of the database is shown by its gauge', async () => {
  const b = setup();
  b.answer();
  const lines = (await b.metrics.expose()).text.split('\n');
  for (const line of [
    'despatch_backlog_messages 1',
    'despatch_scheduled_messages 2',
    'despatch_braked_messages 3',
    'despatch_braked_channels{level="held"} 4',
    'despatch_partitions_due{task="drop"} 5',
    'despatch_deletion_oldest_seconds 6',
    'despatch_receipts_oldest_seconds 7',
    'despatch_events_oldest_seconds 8',
    'despatch_usage_oldest_seconds 9',
    'despatch_webhook_oldest_unmatched_seconds 10',
    'despatch_webhook_oldest_due_seconds 11',
    'despatch_webhook_endpoints{status="active"} 12',
  ])
    expect(lines).toContain(line);
});

test('scrapes during slow reads add no read, of whatever number of gauges', async () => {
  const b = setup();
  const scrapes = Promise.all([b.metrics.expose(), b.metrics.expose(), b.metrics.expose()]);
  await new Promise(setImmediate);
  b.answer();
  await scrapes;
  expect(Object.values(b.reads)).toEqual(Array.from({ length: 10 }, () => 1));
});
