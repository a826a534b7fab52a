import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

export type FloodOptions = {
  readonly origin: string;
  readonly key: string;
  /** Each connection sends one request after the other, whatever the api answers. */
  readonly connections: number;
  readonly body: string;
};

export type Flood = AsyncDisposable & {
  /** Number of answers so far, by status. */
  readonly counts: () => Readonly<Record<number, number>>;
};

/** Sends as fast as answers arrive, from a thread of its own, so that its cost does not add to the neighbour's measured wait. */
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
