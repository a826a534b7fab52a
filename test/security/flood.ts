import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

export type FloodOptions = {
  readonly origin: string;
  readonly key: string;
  /** Each sends one after the other, whatever comes back. */
  readonly connections: number;
  readonly body: string;
};

export type Flood = AsyncDisposable & {
  /** Answers so far, by status. */
  readonly counts: () => Readonly<Record<number, number>>;
};

/** Sends as fast as answers come, from a thread of its own: what it costs is not measured as the neighbour's wait. */
export async function startFlood(options: FloodOptions): Promise<Flood> {
  const worker = new Worker(new URL('./flood-thread.ts', import.meta.url), { workerData: options });
  let counts: Record<number, number> = {};
  const begun = once(worker, 'message');
  worker.on('message', (said: Record<number, number>) => (counts = said));
  await begun;
  return {
    counts: () => counts,
    [Symbol.asyncDispose]: async () => void (await worker.terminate()),
  };
}
