// Process that stands in for a provider: takes every message at once and notes when it came.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { wallMs } from './clock.ts';
import { answerCommands } from './helper.ts';
import { messageNumber } from './request-text.ts';

export type ProviderCommand = 'port' | 'reset' | 'count' | 'take';

export type ProviderResult = {
  readonly port: number;
  readonly count: number;
  /** With `take`: number and time of each request since the last reset, in the order of arrival. */
  readonly arrivals: readonly (readonly [n: number, at: number])[];
};

const REPLY = JSON.stringify({ sid: `SM${'0'.repeat(32)}`, status: 'queued' });
const HEADERS = { 'content-type': 'application/json', 'content-length': String(REPLY.length) };

let arrivals: [n: number, at: number][] = [];
const server = createServer((request, response) => {
  const at = wallMs();
  let body = '';
  request.setEncoding('latin1');
  request.on('data', (chunk: string) => (body += chunk));
  request.on('end', () => {
    arrivals.push([messageNumber(body) ?? -1, at]);
    response.writeHead(201, HEADERS).end(REPLY);
  });
});
server.listen(0, '127.0.0.1');
const listening = once(server, 'listening');

answerCommands<ProviderCommand, ProviderResult>(async (command) => {
  await listening;
  const { port } = server.address() as AddressInfo;
  if (command === 'reset') arrivals = [];
  return { port, count: arrivals.length, arrivals: command === 'take' ? arrivals : [] };
});
