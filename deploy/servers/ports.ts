import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';

// Below every system's ephemeral range, so that an outgoing connection can never occupy a port that a server is about to
// bind, nor take it while that server restarts.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const TRIES_MAX = 200;
const LOOPBACK = '127.0.0.1';

/**
 * Returns a TCP port of `host`, as `listenAddress` takes it, from 20000 to 31999 on which nothing listens. The port is not
 * returned to anyone else while this process lives. Throws when none is found.
 */
export async function freePort(host = LOOPBACK): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    if ((await reserve(port)) && (await isFreePort(port, host))) return port;
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_MAX} on ${host}`);
}

/**
 * Reserves a port across all processes of the machine by binding its UDP port, which no server here uses: the process that
 * received the TCP port may not listen on it yet.
 */
async function reserve(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref();
  const isBound = await new Promise<boolean>((resolve) => {
    socket.once('error', () => resolve(false));
    socket.bind({ address: LOOPBACK, port, exclusive: true }, () => resolve(true));
  });
  if (!isBound) socket.close();
  return isBound;
}

/**
 * Returns the address to listen on for clients that reach this machine as `host`: `host` itself if it is a local address,
 * or else all addresses, because a name that only others can resolve, such as a laptop's inside its container engine,
 * cannot be bound.
 */
export function listenAddress(host: string): string {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  return host === LOOPBACK || own.some(({ address }) => address === host) ? host : '0.0.0.0';
}

/** Returns whether nothing listens on a port of `host`. */
export async function isFreePort(port: number, host = LOOPBACK): Promise<boolean> {
  const server = createServer();
  const bound = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ host: listenAddress(host), port, exclusive: true }, () => resolve(true));
  });
  if (bound) {
    const closed = once(server, 'close');
    server.close();
    await closed;
  }
  return bound;
}
