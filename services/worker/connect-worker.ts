import { decodeNotice } from '#core/domain/tenant/notice.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { WorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { Worker } from './build-worker.ts';

export type ConnectWorkerDeps = {
  readonly worker: Worker;
  readonly nats: Nats;
  readonly metrics: WorkerMetrics;
  readonly log: Logger;
  readonly inFlightMax: number;
};

/** Feeds a worker with wake-ups and change notices from NATS. Without NATS everything still works, some seconds later. */
export function connectWorker({ worker, nats, metrics, log, inFlightMax }: ConnectWorkerDeps): {
  stop(): Promise<void>;
} {
  const consuming = new AbortController();
  nats.onConnection(metrics.natsConnection);
  const consumer = nats.consumeWakes({
    // Enough that the fair queue always has a choice between tenants, however many wake-ups one tenant causes.
    maxMessages: Math.min(10_000, Math.max(500, inFlightMax * 4)),
    signal: consuming.signal,
    onWake(wake) {
      metrics.wakeupsReceived.inc();
      worker.wake(Buffer.from(wake.payload).toString(), wake.kind);
    },
    onRecreated: worker.streamRecreated,
  });
  const unsubscribe = nats.onNotice('*', (kind, payload) => {
    const notice = decodeNotice(payload);
    if (notice === null) log.warn({ kind }, 'Dropped a notice that could not be read');
    else worker.notice(kind, notice);
  });
  metrics.consumerPending.from(async () => (await nats.consumerLag())?.pending ?? null);
  return {
    async stop() {
      unsubscribe();
      consuming.abort();
      await consumer.closed;
    },
  };
}
