import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Allows only one quick start at a time in a folder. The lock is a socket: it answers only while its owner lives, so reused
 * process ids cause no confusion. It is in the temporary folder because a socket's path must be short.
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
