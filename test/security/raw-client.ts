import { connect, type Socket } from 'node:net';

export type RawSocket = {
  readonly socket: Socket;
  /** Everything received so far. */
  readonly text: () => string;
  readonly isClosed: () => boolean;
  /** How long the connection was open, or has been open until now, in milliseconds. */
  readonly lifeMs: () => number;
  /** Resolves with everything received, after the other side has closed. */
  readonly closed: Promise<string>;
};

export type RawOptions = {
  /** Keeps writing after the other side has ended. Default: closes then. */
  readonly isStubborn?: boolean;
};

/** Opens a connection that writes bytes unchanged. */
export async function openRaw(port: number, { isStubborn = false }: RawOptions = {}): Promise<RawSocket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: isStubborn });
  let text = '';
  const openedAt = performance.now();
  let closedAt: number | undefined;
  const closed = new Promise<string>((resolve) => {
    socket.on('close', () => {
      closedAt = performance.now();
      resolve(text);
    });
  });
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  // The `close` event follows every error.
  socket.on('error', () => {});
  await new Promise<void>((resolve) => {
    socket.once('connect', resolve).once('close', () => resolve());
  });
  return {
    socket,
    text: () => text,
    isClosed: () => closedAt !== undefined,
    lifeMs: () => (closedAt ?? performance.now()) - openedAt,
    closed,
  };
}

/** Writes once and reads until the other side closes. */
export async function exchangeRaw(port: number, bytes: string | Buffer): Promise<string> {
  const raw = await openRaw(port);
  raw.socket.write(bytes);
  return raw.closed;
}

/** Returns the status of each response in the bytes that a connection received. */
export function statusesOf(text: string): number[] {
  return [...text.matchAll(/^HTTP\/1\.[01] (\d{3})/gm)].map(([, status]) => Number(status));
}
