import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { listenAddress } from '../../deploy/servers/ports.ts';

/** One request as a stand-in took it. */
export type Received = {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
};

export type Reply = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent as it is, anything else as JSON. */
  readonly body?: unknown;
};

/** What goes wrong with a request instead of the usual answer. */
export type Fault =
  | ({ readonly kind: 'reply' } & Reply)
  /** Takes the whole request and never answers. */
  | { readonly kind: 'hang' }
  /** Takes the whole request and cuts the connection. */
  | { readonly kind: 'reset' }
  /** Sends the status and the start of a body, then cuts the connection. */
  | { readonly kind: 'broken-body'; readonly status: number };

/** A local server in a vendor's place. It takes any credential and any recipient. */
export type StandIn = AsyncDisposable & {
  readonly origin: string;
  /** The newest requests, oldest first. `GET /received` shows the same. */
  readonly received: readonly Received[];
  /** Makes the next request whose path matches go wrong; faults queue up. */
  readonly fail: (fault: Fault, path?: RegExp) => void;
};

/** What a stand-in signs its receipts with: the account at the vendor, as a tenant enters it. */
export type SigningAccount = {
  readonly publicConfig: Readonly<Record<string, unknown>>;
  readonly secretConfig: Readonly<Record<string, unknown>>;
};

export type StandInOptions = {
  /** Address that clients reach this machine at. Default: loopback. */
  readonly host?: string;
  /** Default: a free port. */
  readonly port?: number;
  /** How many requests are remembered. Default 1000. */
  readonly keep?: number;
  /** The page at `GET /`, for people. */
  readonly page?: (received: readonly Received[]) => Reply;
  /** Whether it reports on messages as the vendor would. Default false. */
  readonly isReporting?: boolean;
  /** Sends a report; resolves with whether it was taken. Default: over HTTP, as it is. */
  readonly deliver?: (report: OutgoingReport, request: Received, signal: AbortSignal) => Promise<boolean>;
  /** What takes the requests, for vendors that speak another version. Default: HTTP/1.1. */
  readonly listen?: (listener: RequestListener) => NetServer & Pick<Server, 'closeAllConnections'>;
  /** Says of each request what goes wrong with it, if anything, as soon or as late as it likes. */
  readonly interfere?: (request: Received) => Promise<Fault | undefined>;
};

/** A call with which the stand-in reports on a message, as the vendor would. */
export type OutgoingReport = {
  /** From the answer to the message on, in milliseconds. */
  readonly afterMs: number;
  readonly method?: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** Until a report that is not taken is tried again, in milliseconds; then it is given up. */
const REPORT_RETRIES_MS = [200, 1_000, 5_000];

/**
 * Starts a stand-in; `answer` gives the vendor's usual reply, undefined is the vendor's 404. `report` says what the vendor
 * would report on what it has answered so.
 */
export async function startStandIn(
  answer: (request: Received) => Reply | undefined,
  {
    host = '127.0.0.1',
    port = 0,
    keep = 1_000,
    page,
    isReporting = false,
    deliver = deliverReport,
    listen = createServer,
    interfere,
  }: StandInOptions = {},
  report: (request: Received, reply: Reply) => readonly OutgoingReport[] = () => [],
): Promise<StandIn> {
  const received: Received[] = [];
  const ended = new AbortController();
  const faults: { readonly fault: Fault; readonly path: RegExp }[] = [];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const taken = await take(request);
    if (taken.path === '/received') return reply(response, { status: 200, body: received });
    if (taken.path === '/' && page !== undefined) return reply(response, page(received));
    received.push(taken);
    if (received.length > keep) received.shift();
    const position = faults.findIndex(({ path }) => path.test(taken.path));
    const [queued] = position === -1 ? [] : faults.splice(position, 1);
    const fault = queued?.fault ?? (await interfere?.(taken));
    if (fault !== undefined) return misbehave(response, fault);
    const given = answer(taken) ?? { status: 404, body: { message: 'Not found' } };
    reply(response, given);
    if (isReporting)
      for (const one of report(taken, given))
        void send(one, ended.signal, () => deliver(one, taken, ended.signal));
  }

  const server = listen((request, response) => {
    serve(request, response).catch(() => request.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, listenAddress(host), resolve);
  });
  return {
    origin: `http://${host}:${(server.address() as AddressInfo).port}`,
    received,
    fail: (fault, path = /^/) => void faults.push({ fault, path }),
    [Symbol.asyncDispose]: async () => {
      ended.abort();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Tries again where it is not taken, as vendors do; what nobody takes is nobody's business here. */
async function send(
  { afterMs }: OutgoingReport,
  signal: AbortSignal,
  deliver: () => Promise<boolean>,
): Promise<void> {
  for (const waitMs of [afterMs, ...REPORT_RETRIES_MS]) {
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted || (await deliver())) return;
  }
}

function deliverReport(
  { url, method = 'POST', headers = {}, body }: OutgoingReport,
  _request: Received,
  signal: AbortSignal,
): Promise<boolean> {
  const sent = { method, headers, ...(body === undefined ? {} : { body }), redirect: 'error' } as const;
  return fetch(url, { ...sent, signal }).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function take(request: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  const body = Buffer.concat(chunks).toString();
  return { method: request.method ?? '', path: request.url ?? '', headers, body, at: Date.now() };
}

function reply(response: ServerResponse, { status, headers = {}, body }: Reply): void {
  const isText = typeof body === 'string';
  const type = isText ? {} : { 'content-type': 'application/json; charset=utf-8' };
  response.writeHead(status, { ...(body === undefined ? {} : type), ...headers });
  response.end(isText ? body : body === undefined ? undefined : JSON.stringify(body));
}

function misbehave(response: ServerResponse, fault: Fault): void {
  if (fault.kind === 'reply') return reply(response, fault);
  if (fault.kind === 'reset') return void response.destroy();
  if (fault.kind === 'broken-body') {
    response.writeHead(fault.status, { 'content-type': 'application/json', 'content-length': '1000' });
    response.write('{"', () => response.destroy());
  }
}
