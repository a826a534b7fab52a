import { createHash } from 'node:crypto';
import { chmod, chown, lstat, mkdir, mkdtemp, rm, stat, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { availableMemory } from 'node:process';
import type { ServerUser } from './unprivileged-user.ts';

export type ServerFolder = {
  readonly path: string;
  /** A temporary folder goes with its server, a given one stays. */
  readonly temporary: boolean;
  /** Deletes a temporary folder. */
  remove(): Promise<void>;
};

const MEMORY_ROOT = '/dev/shm';
/** What the data of a server may come to, and as much for everybody else. */
const MEMORY_BYTES_MIN = 4 * 2 ** 30;

/**
 * The folder of one server, of mode 0700: `dir`, made if absent, or a new temporary one.
 * It belongs to `user` when given; a `dir` that this user cannot reach, such as one under a 0700
 * home, is replaced by a folder of the temporary directory that stays the same for the same `dir`.
 */
export async function serverFolder(name: string, dir?: string, user?: ServerUser): Promise<ServerFolder> {
  if (dir === undefined) {
    return newFolder(name, await temporaryRoot(user), user);
  }
  const wanted = resolve(dir);
  const path =
    user === undefined || (await isReachable(dirname(wanted))) ? wanted : await standIn(name, wanted, user);
  await mkdir(path, { recursive: true, mode: 0o700 });
  await give(path, user);
  return { path, temporary: false, remove: async () => {} };
}

/**
 * A new folder in memory, where the system has a place for that with room to spare, else a temporary one like others. A
 * database of ours is more than a thousand files, and disks are slow at making and deleting so many.
 */
export async function memoryFolder(name: string, user?: ServerUser): Promise<ServerFolder> {
  return newFolder(name, (await hasRoomInMemory()) ? MEMORY_ROOT : await temporaryRoot(user), user);
}

/** Whether every user can pass through `path` and all folders above it; absent ones will be made passable. */
export async function isReachable(path: string): Promise<boolean> {
  for (let current = resolve(path); ; current = dirname(current)) {
    const found = await stat(current).catch(() => undefined);
    if (found !== undefined && (found.mode & 0o001) === 0) return false;
    if (current === dirname(current)) return true;
  }
}

/** The system's folder for temporary files, or /tmp when `user` cannot reach that. */
export async function temporaryRoot(user: ServerUser | undefined): Promise<string> {
  return user === undefined || (await isReachable(tmpdir())) ? tmpdir() : '/tmp';
}

async function newFolder(name: string, root: string, user: ServerUser | undefined): Promise<ServerFolder> {
  const path = await mkdtemp(join(root, `despatch-${name}-`));
  await give(path, user);
  return { path, temporary: true, remove: () => rm(path, { recursive: true, force: true }) };
}

async function hasRoomInMemory(): Promise<boolean> {
  if (process.platform !== 'linux' || availableMemory() < MEMORY_BYTES_MIN) return false;
  const found = await statfs(MEMORY_ROOT).catch(() => undefined);
  return found !== undefined && found.bavail * found.bsize >= MEMORY_BYTES_MIN;
}

async function standIn(name: string, wanted: string, user: ServerUser): Promise<string> {
  const hash = createHash('sha256').update(wanted).digest('hex').slice(0, 16);
  const path = join(await temporaryRoot(user), `despatch-${name}-${hash}`);
  const found = await lstat(path).catch(() => undefined);
  // The name can be guessed, so someone else may have put a folder of theirs there.
  if (found !== undefined && !(found.isDirectory() && (found.uid === user.uid || found.uid === 0))) {
    throw new Error(`${path} belongs to another user: remove it`);
  }
  return path;
}

async function give(path: string, user: ServerUser | undefined): Promise<void> {
  await chmod(path, 0o700);
  if (user !== undefined) await chown(path, user.uid, user.gid);
}
