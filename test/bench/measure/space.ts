import { statfs } from 'node:fs/promises';
import type { Bench } from './bench.ts';

/** Disk space per message, with its indexes and its write-ahead log. */
const BYTES_PER_MESSAGE = 3_000;

/** @throws TypeError where the messages would not fit on the disk. `advice` is added to its text. */
export async function requireSpace({ stack }: Bench, messages: number, advice: string): Promise<void> {
  const { bavail, bsize } = await statfs(stack.dataFolder);
  const [free, wanted] = [bavail * bsize, messages * BYTES_PER_MESSAGE].map((bytes) =>
    Math.ceil(bytes / 1e9),
  ) as [number, number];
  if (free >= wanted) return;
  throw new TypeError(`${wanted} GB are needed in ${stack.dataFolder}, where ${free} GB are free; ${advice}`);
}
