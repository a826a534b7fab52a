import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const collect = (): void => {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
};

/** Returns how many bytes of the heap are in use, without garbage. Promises that are settled are garbage a moment later. */
export async function heapUsed(): Promise<number> {
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  return process.memoryUsage().heapUsed;
}

/** Returns how many bytes of the heap are in use after `work` that were not before, without garbage. */
export function heapGrowth(work: () => void): number {
  collect();
  const before = process.memoryUsage().heapUsed;
  work();
  collect();
  return process.memoryUsage().heapUsed - before;
}
