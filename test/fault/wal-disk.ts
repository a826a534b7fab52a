import { spawnSync } from 'node:child_process';
import { chown, mkdtemp, open, rm, stat, statfs, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PostgresServer } from '../../deploy/servers/postgres.ts';
import { runProgram } from '../../deploy/servers/run-program.ts';

/** A small disk that holds nothing but the write-ahead log. */
export type WalDisk = AsyncDisposable & {
  /** Leaves no room at all. */
  readonly fill: () => Promise<void>;
  readonly free: () => Promise<void>;
};

const SIZE = '768m';

/** Moves the log of a server to a disk in memory. @returns null where we may not mount one. */
export async function openWalDisk(server: PostgresServer): Promise<WalDisk | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
  const mountPoint = await mkdtemp(join(tmpdir(), 'despatch-wal-'));
  const isMounted = await runProgram('mount', [
    '-t',
    'tmpfs',
    '-o',
    `size=${SIZE}`,
    'tmpfs',
    mountPoint,
  ]).then(
    () => true,
    () => false,
  );
  if (!isMounted) {
    await rm(mountPoint, { recursive: true });
    return null;
  }
  // A mount outlives every process: however this one ends, it goes.
  const unmount = (): void => void spawnSync('/bin/umount', ['-l', mountPoint]);
  process.once('exit', unmount);
  const log = join(server.dir, 'data', 'pg_wal');
  const moved = join(mountPoint, 'pg_wal');
  const filler = join(mountPoint, 'filler');
  await server.stop();
  const { uid, gid } = await stat(log);
  await runProgram('cp', ['-a', log, moved]);
  await rm(log, { recursive: true });
  await symlink(moved, log);
  await chown(mountPoint, uid, gid);
  await server.restart();
  return {
    async fill() {
      const file = await open(filler, 'w');
      const { bavail, bsize } = await statfs(mountPoint);
      const block = Buffer.alloc(1024 * 1024);
      try {
        for (let left = bavail * bsize; left > 0; left -= block.length) {
          await file.write(block, 0, Math.min(block.length, left));
        }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        await file.close();
      }
    },
    free: () => rm(filler, { force: true }),
    async [Symbol.asyncDispose]() {
      await server.stop('immediate');
      process.off('exit', unmount);
      unmount();
      await rm(mountPoint, { recursive: true, force: true });
    },
  };
}
