import { connect, type Socket } from 'node:net';

export type RawSocket = {
  readonly socket: Socket;
  /** All that has come so far. */
  readonly text: () => string;
  readonly isClosed: () => boolean;
  /** How long it was open, or has been until now, in milliseconds. */
  readonly lifeMs: () => number;
  /** Resolves with all that came, once the other side has closed. */
  readonly closed: Promise<string>;
};

export type RawOptions = {
  /** Goes on writing when the other side has ended. Default: closes then. */
  readonly isStubborn?: boolean;
};

/** A connection that writes bytes as they are. */
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
  // Whatever ends it, the close tells.
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

/** The status of each response in what a connection gave. */
export function statusesOf(text: string): number[] {
  return [...text.matchAll(/^HTTP\/1\.[01] (\d{3})/gm)].map(([, status]) => Number(status));
}
