import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Keeps a folder to one quick start at a time. The lock is a socket: it answers while its owner lives, whatever
 * process ids the system hands out. It lies in the temporary folder because the path of a socket must be short.
 * @throws when the folder is in use.
 */
export async function lockFolder(folder: string): Promise<AsyncDisposable> {
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 16);
  const path = join(tmpdir(), `despatch-${name}.sock`);
  if (await answers(path)) {
    throw new Error(
      `another quick start runs on ${folder}: stop it, or give this one its own folder with --state`,
    );
  }
  await rm(path, { force: true });
  const server = createServer((socket) => socket.destroy());
  server.listen(path);
  await once(server, 'listening');
  server.unref();
  return {
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
