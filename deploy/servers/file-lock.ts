import { readFile, rm, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

export type FileLock = {
  /** The lock file; contains the owner's process id. */
  path: string;
  onWait?: () => void;
};

/** Runs `work` while no other process on this machine holds the same lock; takes over the lock of a dead owner. */
export async function withFileLock<T>({ path, onWait }: FileLock, work: () => Promise<T>): Promise<T> {
  let waiting = false;
  while (!(await acquire(path))) {
    if (!waiting) onWait?.();
    waiting = true;
    await delay(100);
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}

async function acquire(path: string): Promise<boolean> {
  try {
    await writeFile(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const owner = Number(await readFile(path, 'utf8').catch(() => ''));
  // An empty file belongs to an owner that is about to write its id.
  if (owner > 0 && !isAlive(owner)) await rm(path, { force: true });
  return false;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
