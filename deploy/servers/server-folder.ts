import { createHash } from 'node:crypto';
import { chmod, chown, lstat, mkdir, mkdtemp, rm, stat, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { availableMemory } from 'node:process';
import type { ServerUser } from './unprivileged-user.ts';

export type ServerFolder = {
  readonly path: string;
  /** A temporary folder is deleted with its server, a given one is kept. */
  readonly temporary: boolean;
  /** Deletes a temporary folder. */
  remove(): Promise<void>;
};

const MEMORY_ROOT = '/dev/shm';
/** Maximum size of a server's data, plus as much for everything else on the machine. */
const MEMORY_BYTES_MIN = 4 * 2 ** 30;

/**
 * Returns the folder of one server, with mode 0700: `dir`, created if absent, or a new temporary one. It belongs to `user`
 * when given. A `dir` that this user cannot reach, such as one below a 0700 home, is replaced by a folder in the temporary
 * directory that is always the same for the same `dir`.
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
 * Returns a new folder in memory if the system has a memory file system with enough space, or else a temporary folder. One
 * of our databases is more than a thousand files, and disks are slow at creating and deleting so many.
 */
export async function memoryFolder(name: string, user?: ServerUser): Promise<ServerFolder> {
  return newFolder(name, (await hasRoomInMemory()) ? MEMORY_ROOT : await temporaryRoot(user), user);
}

/** Returns whether every user can traverse `path` and all folders above it; absent ones will be created traversable. */
export async function isReachable(path: string): Promise<boolean> {
  for (let current = resolve(path); ; current = dirname(current)) {
    const found = await stat(current).catch(() => undefined);
    if (found !== undefined && (found.mode & 0o001) === 0) return false;
    if (current === dirname(current)) return true;
  }
}

/** Returns the system's folder for temporary files, or /tmp when `user` cannot reach that. */
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
  // The name is predictable, so another user may have created the folder.
  if (found !== undefined && !(found.isDirectory() && (found.uid === user.uid || found.uid === 0))) {
    throw new Error(`${path} belongs to another user: remove it`);
  }
  return path;
}

async function give(path: string, user: ServerUser | undefined): Promise<void> {
  await chmod(path, 0o700);
  if (user !== undefined) await chown(path, user.uid, user.gid);
}
