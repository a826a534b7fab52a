import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** Connections that have their last answer and are read on for a while. */
export type Lingering = {
  /**
   * Ends the writing half and reads on, for nothing. A connection that is closed while its client still writes is reset,
   * and the reset may take the answer along, out of the client's own buffer.
   * @param request The one that is still arriving; undefined where none was understood.
   * @param mostMs Until it is closed whatever comes. Default: `durationMs`.
   */
  readonly add: (socket: Socket, request: IncomingMessage | undefined, mostMs?: number) => void;
  /** What comes on such a connection is no request and no fault. */
  readonly has: (socket: Socket) => boolean;
  /** Closes all of them, and from now on each as soon as its answer is written. */
  readonly end: () => void;
};

export type LingeringBounds = {
  /** Connections at once; beyond it the one that has lingered longest is closed. */
  readonly connectionsMax: number;
  /** Of one connection. */
  readonly bytesMax: number;
  /** Of one connection, in milliseconds. */
  readonly durationMs: number;
  /** Without a byte, in milliseconds. */
  readonly silenceMs: number;
};

/** Twice what the largest request has; and what a client takes for that over a line of 25 Mbit/s. */
const BOUNDS: LingeringBounds = {
  connectionsMax: 1_000,
  bytesMax: 32 * 1024 * 1024,
  durationMs: 10_000,
  silenceMs: 2_000,
};

/** Node gives out no more of a body that it has thrown away, so its bytes are seen at the next look. */
const LOOK_EVERY_MS = 50;

type Guest = { readonly bytesBefore: number; readonly until: number; bytes: number; heardAt: number };

export function createLingering(bounds: LingeringBounds = BOUNDS): Lingering {
  const { connectionsMax, bytesMax, durationMs, silenceMs } = bounds;
  /** In the order in which they came. */
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
    // At once: it closes a little later, and others may come until then.
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
      // The rest of its body leads nowhere; when that is over, nothing that follows is begun with.
      request?.on('data', () => look(socket, guest, performance.now())).resume();
    },
    has: (socket) => guests.has(socket),
    end() {
      isEnding = true;
      for (const socket of guests.keys()) socket.destroy();
    },
  };
}
