// Stands in for a provider: records when each message arrived and accepts it, at once or when told to.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { messageNumber } from '../load/request-text.ts';
import { wallMs } from '../measure/clock.ts';
import { answerCommands } from '../measure/helper.ts';

/** `hold`: requests get no answer until `release`. */
export type ProviderCommand = 'reset' | 'count' | 'take' | 'hold' | 'release';

export type ProviderResult = {
  readonly port: number;
  readonly count: number;
  /** With `take`: number and time of each request since the last reset, in the order of arrival. */
  readonly arrivals: readonly Arrival[];
};

export type Arrival = readonly [n: number, at: number];

const REPLY = JSON.stringify({ sid: `SM${'0'.repeat(32)}`, status: 'queued' });
const HEADERS = { 'content-type': 'application/json', 'content-length': String(REPLY.length) };

let arrivals: Arrival[] = [];
let held: ServerResponse[] | undefined;
const reply = (response: ServerResponse): void => void response.writeHead(201, HEADERS).end(REPLY);
const server = createServer((request, response) => {
  const at = wallMs();
  let body = '';
  request.setEncoding('latin1');
  request.on('data', (chunk: string) => (body += chunk));
  request.on('end', () => {
    arrivals.push([messageNumber(body) ?? -1, at]);
    if (held === undefined) reply(response);
    else held.push(response);
  });
});
server.listen(0, '127.0.0.1');
const listening = once(server, 'listening');

answerCommands<ProviderCommand, ProviderResult>(async (command) => {
  await listening;
  const { port } = server.address() as AddressInfo;
  if (command === 'reset') arrivals = [];
  if (command === 'hold') held ??= [];
  if (command === 'release') {
    for (const response of held ?? []) reply(response);
    held = undefined;
  }
  return { port, count: arrivals.length, arrivals: command === 'take' ? arrivals : [] };
});
