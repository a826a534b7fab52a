import { spawnSync } from 'node:child_process';
import {
  chown,
  mkdir,
  mkdtemp,
  open,
  rm,
  stat,
  statfs,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PostgresServer } from '../../deploy/servers/postgres.ts';
import { runProgram } from '../../deploy/servers/run-program.ts';

/** A small disk that holds nothing but the write-ahead log. */
export type WalDisk = AsyncDisposable & {
  /** Leaves no room at all. */
  readonly fill: () => Promise<void>;
  readonly free: () => Promise<void>;
  /** What was not synced is gone, and nothing can be read or written any more. */
  readonly losePower: () => Promise<void>;
  /** Starts the server on what was synced. */
  readonly regainPower: () => Promise<void>;
};

const SIZE = '768m';
/** Bytes, less than the memory around it. */
const IMAGE_SIZE = 760 * 1024 * 1024;

/**
 * `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH` (Linux, fs/ext4/ext4.h): the file system ends at once, and
 * neither its journal nor what is cached reaches the disk. Perl is part of every Debian and can call it.
 */
const SHUTDOWN = `open my $dir, '<', $ARGV[0] or die $!;
  my $flags = pack 'L', 2;
  ioctl $dir, 0x8004587D, $flags or die $!;`;

/**
 * Moves the log of a server to a file system of its own, in memory. Pages never reach the data files before their log
 * is synced, so it is the log alone that has something to lose with the power.
 * @returns null where we may not mount one.
 */
export async function openWalDisk(server: PostgresServer): Promise<WalDisk | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
  const folder = await mkdtemp(join(tmpdir(), 'despatch-wal-'));
  const [memory, disk] = [join(folder, 'memory'), join(folder, 'disk')];
  const image = join(memory, 'image');
  // A mount outlives every process: however this one ends, it goes.
  const unmount = (): void => {
    for (const point of [disk, memory]) spawnSync('/bin/umount', ['-l', point], { stdio: 'ignore' });
  };
  const mount = (): Promise<string> => runProgram('mount', ['-o', 'loop', image, disk]);
  const isMounted = await (async () => {
    await mkdir(memory);
    await mkdir(disk);
    await runProgram('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}`, 'tmpfs', memory]);
    await writeFile(image, '');
    await truncate(image, IMAGE_SIZE);
    // No room is set aside for root: full is full.
    await runProgram('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
    await mount();
  })().then(
    () => true,
    () => false,
  );
  if (!isMounted) {
    unmount();
    await rm(folder, { recursive: true });
    return null;
  }
  process.once('exit', unmount);
  const log = join(server.dir, 'data', 'pg_wal');
  const moved = join(disk, 'pg_wal');
  const filler = join(disk, 'filler');
  await server.stop();
  const { uid, gid } = await stat(log);
  await runProgram('cp', ['-a', log, moved]);
  await rm(log, { recursive: true });
  await symlink(moved, log);
  // The server's user has to pass through.
  for (const path of [folder, disk]) await chown(path, uid, gid);
  await server.restart();
  return {
    async fill() {
      const file = await open(filler, 'w');
      const { bavail, bsize } = await statfs(disk);
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
    async losePower() {
      await runProgram('perl', ['-e', SHUTDOWN, disk]);
    },
    async regainPower() {
      await server.stop('immediate');
      await runProgram('umount', [disk]);
      await mount();
      await server.restart();
    },
    async [Symbol.asyncDispose]() {
      await server.stop('immediate');
      process.off('exit', unmount);
      unmount();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
