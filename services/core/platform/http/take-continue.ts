import type { Socket } from 'node:net';

/** Length of `HTTP/1.1 `, after which the three digits of the status follow. */
const STATUS_AT = 9;
const LAST_DIGIT_AT = STATUS_AT + 2;
const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const ONE = 0x31;
const THREE = 0x33;

/**
 * Makes undici take an unasked `100 Continue` as any other interim response. A client must accept interim responses that it does
 * not expect (RFC 9110, 15.2), and undici does so with `103 Early Hints`, but closes the connection at a 100: the result of a call
 * that the server may well have processed would be unknown. The status of such a response is changed to 103 as it is read.
 * Requests must follow each other on the connection, and must be written at once.
 */
export function takeContinue(socket: Socket): Socket {
  const responses = responseReader();
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  return Object.assign(socket, {
    read(size?: number): unknown {
      const chunk: unknown = read(size);
      if (chunk instanceof Buffer) responses.pass(chunk);
      return chunk;
    },
    write(...args: unknown[]): boolean {
      responses.begin();
      return write(...args);
    },
  });
}

/** Follows the responses of a connection up to the status of each final one. Chunks may end anywhere, so no byte is kept. */
function responseReader() {
  let state: 'status' | 'interim' | 'final' = 'final';
  /** Number of bytes of the status line so far. */
  let place = 0;
  let isZero = false;
  /** Whether the current line of an interim response is empty so far. */
  let isLineEmpty = false;

  function readStatus(chunk: Buffer, i: number): void {
    const byte = chunk[i];
    if (place === 0 && (byte === CR || byte === LF)) return;
    if (place === STATUS_AT && byte !== ONE) state = 'final';
    if (place === LAST_DIGIT_AT - 1) isZero = byte === ZERO;
    if (place === LAST_DIGIT_AT) {
      if (isZero && byte === ZERO) chunk[i] = THREE;
      state = 'interim';
      isLineEmpty = false;
    }
    place += 1;
  }

  function readInterim(byte: number | undefined): void {
    if (byte === LF && isLineEmpty) {
      state = 'status';
      place = 0;
    } else if (byte !== CR) isLineEmpty = byte === LF;
  }

  return {
    /** A request begins; until then, all that follows a final status belongs to that response. */
    begin(): void {
      if (state !== 'final') return;
      state = 'status';
      place = 0;
    },
    pass(chunk: Buffer): void {
      for (let i = 0; i < chunk.length && state !== 'final'; i += 1) {
        if (state === 'status') readStatus(chunk, i);
        else readInterim(chunk[i]);
      }
    },
  };
}
