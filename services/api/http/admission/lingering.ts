import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Connections that have received their last answer and are still read for a while. */
export type Lingering = {
  /**
   * Ends the writing half and discards further input. If a connection is closed while its client is still writing, the
   * kernel resets it, and the reset may delete the answer from the client's receive buffer.
   * @param request The request that is still arriving; undefined if none could be parsed.
   * @param mostMs Time until the connection is closed regardless of input. Default: `durationMs`.
   */
  readonly add: (socket: Socket, request: IncomingMessage | undefined, mostMs?: number) => void;
  /** Returns whether the connection lingers: its input is neither a request nor a fault. */
  readonly has: (socket: Socket) => boolean;
  /** Closes all connections, and from now on each one as soon as its answer is written. */
  readonly end: () => void;
};

export type LingeringBounds = {
  /** Maximum number of connections; beyond it, the one that has lingered longest is closed. */
  readonly connectionsMax: number;
  /** Per connection. */
  readonly bytesMax: number;
  /** Per connection, in milliseconds. */
  readonly durationMs: number;
  /** Without receiving a byte, in milliseconds. */
  readonly silenceMs: number;
};

/** Twice the largest request, and the time that it takes over a line of 25 Mbit/s. */
const BOUNDS: LingeringBounds = {
  connectionsMax: 1_000,
  bytesMax: 32 * 1024 * 1024,
  durationMs: 10_000,
  silenceMs: 2_000,
};

/** Node emits no data events for a discarded body, so its bytes are counted at intervals. */
const LOOK_EVERY_MS = 50;

type Guest = { readonly bytesBefore: number; readonly until: number; bytes: number; heardAt: number };

export function createLingering(bounds: LingeringBounds = BOUNDS): Lingering {
  const { connectionsMax, bytesMax, durationMs, silenceMs } = bounds;
  /** In order of arrival. */
  const guests = new Map<Socket, Guest>();
  let timer: NodeJS.Timeout | undefined;
  let isEnding = false;

  function look(socket: Socket, guest: Guest, now: number): void {
    const bytes = socket.bytesRead - guest.bytesBefore;
    if (bytes > guest.bytes) guest.heardAt = now;
    guest.bytes = bytes;
    if (bytes > bytesMax || now > guest.until || now - guest.heardAt > silenceMs) socket.destroy();
  }

  function lookAtAll(): void {
    const now = performance.now();
    for (const [socket, guest] of guests) look(socket, guest, now);
  }

  function dismissOldest(): void {
    const oldest = guests.keys().next().value;
    if (oldest === undefined) return;
    // Removed immediately: the socket closes a little later, and other connections may be added until then.
    guests.delete(oldest);
    oldest.destroy();
  }

  function leave(socket: Socket): void {
    guests.delete(socket);
    if (guests.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  return {
    add(socket, request, mostMs = durationMs) {
      if (socket.destroyed || guests.has(socket)) return;
      if (isEnding) {
        socket.end(() => socket.destroy());
        return;
      }
      if (guests.size >= connectionsMax) dismissOldest();
      const now = performance.now();
      const guest = { bytesBefore: socket.bytesRead, until: now + mostMs, bytes: 0, heardAt: now };
      guests.set(socket, guest);
      timer ??= setInterval(lookAtAll, LOOK_EVERY_MS).unref();
      socket.once('close', () => leave(socket));
      socket.once('end', () => socket.destroy());
      socket.end();
      // Discards the rest of the body; no later request on the connection is started.
      request?.on('data', () => look(socket, guest, performance.now())).resume();
    },
    has: (socket) => guests.has(socket),
    end() {
      isEnding = true;
      for (const socket of guests.keys()) socket.destroy();
    },
  };
}
