import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';

// Below every system's ephemeral range: an outgoing connection can then never sit on a port that a
// server is about to bind, nor take it while that server restarts.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const TRIES_MAX = 200;
const LOOPBACK = '127.0.0.1';

/**
 * A TCP port of `host`, as `listenAddress` takes it, that nothing listens on, from 20000 to 31999. Nobody else is given it
 * while this process lives. Throws when none is found.
 */
export async function freePort(host = LOOPBACK): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(PORT_MIN, PORT_MAX);
    if ((await reserve(port)) && (await isFreePort(port, host))) return port;
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_MAX} on ${host}`);
}

/**
 * Whoever was given a port may not listen on it yet. That it is given is seen by all processes of the machine: its UDP port,
 * which no server here uses, is bound.
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
 * The address to listen on for those who know this machine as `host`: that one where it is the machine's own, else all,
 * as a name that only others know, such as that of a laptop inside its container engine, cannot be bound.
 */
export function listenAddress(host: string): string {
  const own = Object.values(networkInterfaces()).flatMap((addresses = []) => addresses);
  return host === LOOPBACK || own.some(({ address }) => address === host) ? host : '0.0.0.0';
}

/** Whether nothing listens on a port of `host`. */
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
