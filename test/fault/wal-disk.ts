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

/** A small file system that holds only the write-ahead log. */
export type WalDisk = AsyncDisposable & {
  /** Fills the file system completely. */
  readonly fill: () => Promise<void>;
  readonly free: () => Promise<void>;
  /** Drops everything that was not synced; reads and writes fail from then on. */
  readonly losePower: () => Promise<void>;
  /** Starts the server with the synced data. */
  readonly regainPower: () => Promise<void>;
};

const SIZE = '768m';
/** Bytes; smaller than the memory file system around it. */
const IMAGE_SIZE = 760 * 1024 * 1024;

/**
 * `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH` (Linux, fs/ext4/ext4.h) ends the file system at once: neither its
 * journal nor its cache reaches the disk. Perl is part of every Debian and can call it.
 */
const SHUTDOWN = `open my $dir, '<', $ARGV[0] or die $!;
  my $flags = pack 'L', 2;
  ioctl $dir, 0x8004587D, $flags or die $!;`;

/**
 * Moves a server's write-ahead log to its own file system in memory. Data pages are written only after their log is synced, so a
 * power loss can only lose unsynced log.
 * @returns null where this process may not mount a file system.
 */
export async function openWalDisk(server: PostgresServer): Promise<WalDisk | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null;
  const folder = await mkdtemp(join(tmpdir(), 'despatch-wal-'));
  const [memory, disk] = [join(folder, 'memory'), join(folder, 'disk')];
  const image = join(memory, 'image');
  // A mount outlives its process, so it is removed however this process ends.
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
    // `-m 0` reserves no space for root, so that a full disk is completely full.
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
  // The server's user needs access to the folders above the log.
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
