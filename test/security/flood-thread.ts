import { parentPort, workerData } from 'node:worker_threads';
import { Pool } from 'undici';
import type { FloodOptions } from './flood.ts';

const { origin, key, connections, body } = workerData as FloodOptions;
const counts: Record<number, number> = {};
const pool = new Pool(origin, { connections, pipelining: 1 });
const bytes = Buffer.from(body);

async function send(): Promise<never> {
  for (;;) {
    const answer = await pool.request({
      method: 'POST',
      path: '/v1/messages',
      headers: { 'content-type': 'application/json', 'x-service-key': key },
      body: bytes,
    });
    await answer.body.dump();
    counts[answer.statusCode] = (counts[answer.statusCode] ?? 0) + 1;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread is no window
    parentPort?.postMessage(counts);
  }
}

await Promise.all(Array.from({ length: connections }, send));
