import { expect, test } from 'vitest';
import type { ConsumeOptions, Nats } from '#core/platform/nats/nats-types.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { Worker } from './build-worker.ts';
import { connectWorker } from './connect-worker.ts';

test('every wake-up that is received is counted, whatever the worker does with it', async () => {
  const metrics = createWorkerMetrics();
  const woken: string[] = [];
  let consuming: ConsumeOptions | undefined;
  const nats = {
    onConnection: () => {},
    onNotice: () => () => {},
    consumerLag: () => Promise.resolve(null),
    consumeWakes(options: ConsumeOptions) {
      consuming = options;
      return { closed: Promise.resolve() };
    },
  } as unknown as Nats;
  const worker = { wake: (payload: string) => woken.push(payload) } as unknown as Worker;
  const consumer = connectWorker({ worker, nats, metrics, log: silentLogger, inFlightMax: 1 });
  const received = async () =>
    /^despatch_wakeups_received_total (\d+)$/m.exec((await metrics.expose()).text)?.[1];
  expect(await received()).toBe('0');
  for (const text of ['a', 'unreadable'])
    consuming?.onWake({ kind: 'normal', payload: Buffer.from(text), traceparent: undefined });
  expect(woken).toEqual(['a', 'unreadable']);
  expect(await received()).toBe('2');
  await consumer.stop();
});
