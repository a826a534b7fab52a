// Preloaded into a service that is measured: asked over HTTP, says what it holds after a garbage collection. Needs
// --expose-gc.
import { createServer } from 'node:http';

export type MemoryReading = {
  /** Objects and buffers that something still refers to, in bytes. */
  readonly held: number;
  /** What the system gave the process, in bytes. */
  readonly resident: number;
};

createServer((_, response) => {
  // What a first collection only marks as to be finalised, the second one frees.
  globalThis.gc?.();
  globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  response.end(JSON.stringify({ held: heapUsed + external, resident: rss } satisfies MemoryReading));
})
  .listen(Number(process.env['MEMORY_PORT']), '127.0.0.1')
  .unref();
