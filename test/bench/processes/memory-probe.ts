// Preloaded into a measured service: answers over HTTP with the memory it holds after a garbage collection. Needs --expose-gc.
import { createServer } from 'node:http';

export type MemoryReading = {
  /** Reachable objects and buffers, in bytes. */
  readonly held: number;
  /** Resident memory of the process, in bytes. */
  readonly resident: number;
};

createServer((_, response) => {
  // The first collection only queues some objects for finalization; the second one frees them.
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  response.end(JSON.stringify({ held: heapUsed + external, resident: rss } satisfies MemoryReading));
})
  .listen(Number(process.env['MEMORY_PORT']), '127.0.0.1')
  .unref();
