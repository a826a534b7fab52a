import { connect, type Socket } from 'node:net';

export type HttpConnection = {
  /** Sends one request at a time; status 0 means that the connection broke. */
  send(request: string, onReply: (status: number, body: string) => void): void;
  close(): void;
};

/**
 * Opens a keep-alive connection that writes prepared request texts and parses only status, length and body of a reply. On few
 * cores, the processor time that the load generator saves is left to the contestants.
 */
export function openConnection(port: number): HttpConnection {
  let socket: Socket | undefined;
  let received = '';
  let waiting: ((status: number, body: string) => void) | undefined;

  const settle = (status: number, body: string): void => {
    const reply = waiting;
    waiting = undefined;
    received = '';
    reply?.(status, body);
  };
  const dial = (): Socket => {
    const fresh = connect({ host: '127.0.0.1', port, noDelay: true });
    fresh.setEncoding('latin1');
    fresh.on('data', (chunk: string) => {
      received += chunk;
      const reply = readReply(received);
      if (reply !== undefined) settle(reply.status, reply.body);
    });
    fresh.on('error', () => {});
    fresh.on('close', () => {
      if (socket === fresh) socket = undefined;
      settle(0, '');
    });
    return fresh;
  };

  return {
    send(request, onReply) {
      waiting = onReply;
      socket ??= dial();
      socket.write(request, 'latin1');
    },
    close() {
      socket?.destroy();
    },
  };
}

/** @returns undefined while the reply is incomplete. @throws when the reply has no content length. */
function readReply(text: string): { status: number; body: string } | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end === -1) return undefined;
  const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1];
  if (length === undefined) throw new Error(`a reply without a length: ${text.slice(0, end)}`);
  const body = text.slice(end + 4);
  return body.length < Number(length) ? undefined : { status: Number(text.slice(9, 12)), body };
}
