import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

// Below every system's ephemeral range: an outgoing connection can then never sit on a port that a
// server is about to bind, nor take it while that server restarts.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const TRIES_MAX = 200;

/** A loopback TCP port that nothing listens on, from 20000 to 31999. Throws when none is found. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_MAX} on 127.0.0.1`);
}

/** `preferred` when nothing listens on it, else a free port. */
export async function portOrFree(preferred: number): Promise<number> {
  return (await isFree(preferred)) ? preferred : freePort();
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const bound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => resolve(true));
  });
  if (bound) {
    const closed = once(server, 'close');
    server.close();
    await closed;
  }
  return bound;
}
