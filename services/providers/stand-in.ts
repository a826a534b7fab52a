import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { openPlace, type Place, type PlaceOptions } from './stand-in-place.ts';

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

/** The account that a message was sent from, and where reports on its messages go. */
export type ReportedAccount = SigningAccount & { readonly receiptUrl: string };

/** By a message's public id; undefined where it is not known, or not yet. */
export type AccountOf = (reference: string) => Promise<ReportedAccount | undefined>;

export type StandInOptions = PlaceOptions & {
  /** Where it is reached instead of a port of its own. */
  readonly place?: (listener: RequestListener) => Promise<Place>;
  /** How many requests are remembered. Default 1000. */
  readonly keep?: number;
  /** The page at `GET /`, for people. */
  readonly page?: (received: readonly Received[]) => Reply;
  /** Whether it reports on messages as the vendor would. Default false. */
  readonly isReporting?: boolean;
  /** What the vendor knows of its customers and a message does not say. Default: nothing. */
  readonly accountOf?: AccountOf;
  /** Sends a report; resolves with whether it was taken. Default: over HTTP, as it is. */
  readonly deliver?: (report: OutgoingReport, request: Received, signal: AbortSignal) => Promise<boolean>;
  /** Says of each request what goes wrong with it, if anything, as soon or as late as it likes. */
  readonly interfere?: (request: Received) => Promise<Fault | undefined>;
};

/** A call with which the stand-in reports on a message, as the vendor would. */
export type OutgoingReport = {
  readonly method?: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** A report that is made when it is sent; undefined where it cannot be made now. */
export type DueReport = {
  /** From the answer to the message on, in milliseconds. */
  readonly afterMs: number;
  readonly make: () => Promise<OutgoingReport | undefined>;
};

/** What a reporting stand-in makes of a request: another reply than the usual one, and reports that follow. */
export type Reaction = { readonly reply?: Reply; readonly reports: readonly DueReport[] };
export type React = (request: Received, usual: Reply, accountOf: AccountOf) => Reaction;

/** Until a report that is not taken is tried again, in milliseconds; then it is given up. */
const REPORT_RETRIES_MS = [200, 1_000, 5_000];

/**
 * Starts a stand-in; `answer` gives the vendor's usual reply, undefined is the vendor's 404. `react` says what the
 * recipient's choice makes of it where the stand-in reports.
 */
export async function startStandIn(
  answer: (request: Received) => Reply | undefined,
  options: StandInOptions = {},
  react: React = () => ({ reports: [] }),
): Promise<StandIn> {
  const { keep = 1_000, page, isReporting = false, deliver = deliverReport, interfere } = options;
  const { accountOf = async () => undefined, place = (listener) => openPlace(options, listener) } = options;
  const received: Received[] = [];
  const ended = new AbortController();
  const faults: { readonly fault: Fault; readonly path: RegExp }[] = [];

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const taken = await take(request);
    const isLookedAt = taken.method === 'GET';
    if (isLookedAt && taken.path === '/received') return reply(response, { status: 200, body: received });
    if (isLookedAt && taken.path === '/' && page !== undefined) return reply(response, page(received));
    received.push(taken);
    if (received.length > keep) received.shift();
    const position = faults.findIndex(({ path }) => path.test(taken.path));
    const [queued] = position === -1 ? [] : faults.splice(position, 1);
    const fault = queued?.fault ?? (await interfere?.(taken));
    if (fault !== undefined) return misbehave(response, fault);
    const usual = answer(taken) ?? { status: 404, body: { message: 'Not found' } };
    const reaction = isReporting ? react(taken, usual, accountOf) : { reports: [] };
    reply(response, reaction.reply ?? usual);
    for (const due of reaction.reports)
      void send(due, ended.signal, (report) => deliver(report, taken, ended.signal));
  }

  const reached = await place((request, response) => {
    serve(request, response).catch(() => request.destroy());
  });
  return {
    origin: reached.origin,
    received,
    fail: (fault, path = /^/) => void faults.push({ fault, path }),
    [Symbol.asyncDispose]: async () => {
      ended.abort();
      await reached[Symbol.asyncDispose]();
    },
  };
}

/** Tries again where it is not taken, as vendors do; what nobody takes is nobody's business here. */
async function send(
  { afterMs, make }: DueReport,
  signal: AbortSignal,
  deliver: (report: OutgoingReport) => Promise<boolean>,
): Promise<void> {
  for (const waitMs of [afterMs, ...REPORT_RETRIES_MS]) {
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const report = await make().catch(() => undefined);
    if (report !== undefined && (await deliver(report))) return;
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
