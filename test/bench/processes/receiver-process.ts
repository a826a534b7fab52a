// Stands in for the receivers of webhooks: records when each event arrived and answers 204, or never.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { wallMs } from '../measure/clock.ts';
import { answerCommands } from '../measure/helper.ts';

export type ReceiverCommand = 'reset' | 'count' | 'take';

export type ReceiverResult = {
  readonly port: number;
  /** A port that accepts calls, never answers and counts nothing. */
  readonly deadPort: number;
  readonly count: number;
  /** With `take`: each event since the last reset, in the order of arrival. */
  readonly arrivals: readonly EventArrival[];
};

export type EventArrival = {
  /** The path of the call; each endpoint has its own. */
  readonly path: string;
  /** Its number in the endpoint's feed. */
  readonly seq: number;
  readonly messageId: string;
  /** When the event happened, by the envelope. */
  readonly happenedAt: number;
  readonly at: number;
};

/** Parsed by the command `take`, so that the measurement does not include the parsing. */
let arrivals: (readonly [path: string, body: string, at: number])[] = [];

function take(request: IncomingMessage, response: ServerResponse): void {
  const at = wallMs();
  let body = '';
  request.setEncoding('latin1');
  request.on('data', (chunk: string) => (body += chunk));
  request.on('end', () => {
    arrivals.push([request.url ?? '', body, at]);
    response.writeHead(204).end();
  });
}

const open = createServer(take);
const dead = createServer((request) => void request.resume());
const listening = Promise.all([open, dead].map((server) => once(server.listen(0, '127.0.0.1'), 'listening')));
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

type Envelope = { timestamp: string; data: { seq: number; messageId: string } };

answerCommands<ReceiverCommand, ReceiverResult>(async (command) => {
  await listening;
  if (command === 'reset') arrivals = [];
  const read = command === 'take' ? arrivals : [];
  return {
    port: portOf(open),
    deadPort: portOf(dead),
    count: arrivals.length,
    arrivals: read.map(([path, body, at]) => {
      const { timestamp, data } = JSON.parse(body) as Envelope;
      return { path, seq: data.seq, messageId: data.messageId, happenedAt: Date.parse(timestamp), at };
    }),
  };
});
