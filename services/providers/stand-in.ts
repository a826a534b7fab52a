import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { openPlace, type Place, type PlaceOptions } from './stand-in-place.ts';

/** One request that a stand-in received. */
export type Received = {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
};

export type Reply = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent unchanged, anything else as JSON. */
  readonly body?: unknown;
};

/** A fault injected instead of the usual answer. */
export type Fault =
  | ({ readonly kind: 'reply' } & Reply)
  /** Reads the whole request, reports that, and never answers. */
  | { readonly kind: 'hang'; readonly onReached?: () => void }
  /** Reads the whole request and closes the connection. */
  | { readonly kind: 'reset' }
  /** Sends the status and the start of a body, then closes the connection. */
  | { readonly kind: 'broken-body'; readonly status: number };

/** A local server in place of a vendor's. It accepts any credential and any recipient. */
export type StandIn = AsyncDisposable & {
  readonly origin: string;
  /** The most recent requests, oldest first. `GET /received` returns the same. */
  readonly received: readonly Received[];
  /** Makes the next request with a matching path fail; faults queue up. */
  readonly fail: (fault: Fault, path?: RegExp) => void;
};

/** The vendor account that a stand-in signs its receipts for, as a tenant enters it. */
export type SigningAccount = {
  readonly publicConfig: Readonly<Record<string, unknown>>;
  readonly secretConfig: Readonly<Record<string, unknown>>;
};

/** The account that a message was sent from, and the URL for reports on its messages. */
export type ReportedAccount = SigningAccount & { readonly receiptUrl: string };

/** Finds the account by a message's public id; undefined while it is unknown. */
export type AccountOf = (reference: string) => Promise<ReportedAccount | undefined>;

export type StandInOptions = PlaceOptions & {
  /** Opens the address of the stand-in, instead of a port of its own. */
  readonly place?: (listener: RequestListener) => Promise<Place>;
  /** How many requests are kept. Default 1000. */
  readonly keep?: number;
  /** Renders the page at `GET /`, for people. */
  readonly page?: (received: readonly Received[]) => Reply;
  /** Whether it sends reports on messages as the vendor would. Default false. */
  readonly isReporting?: boolean;
  /** Returns what the vendor knows about its customers and a message does not contain. Default: nothing. */
  readonly accountOf?: AccountOf;
  /** Sends a report; resolves to whether the receiver accepted it. Default: unchanged, over HTTP. */
  readonly deliver?: (report: OutgoingReport, request: Received, signal: AbortSignal) => Promise<boolean>;
  /** Returns the fault of each request, if any, after any delay. */
  readonly interfere?: (request: Received) => Promise<Fault | undefined>;
};

/** A call that reports on a message, as the vendor would make it. */
export type OutgoingReport = {
  readonly method?: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
};

/** A report that is built when it is due; undefined when it cannot be built then. */
export type DueReport = {
  /** Delay after the answer to the message, in milliseconds. */
  readonly afterMs: number;
  readonly make: () => Promise<OutgoingReport | undefined>;
};

/** What a reporting stand-in does with a request: a reply other than the usual one, and the reports that follow. */
export type Reaction = { readonly reply?: Reply; readonly reports: readonly DueReport[] };
export type React = (request: Received, usual: Reply, accountOf: AccountOf) => Reaction;

/** Delays before retries of a refused report, in milliseconds; after the last one the report is dropped. */
const REPORT_RETRIES_MS = [200, 1_000, 5_000];

/**
 * Starts a stand-in. `answer` returns the vendor's usual reply; undefined means the vendor's 404. `react` returns the reply
 * and the reports that the recipient selects, when the stand-in reports.
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

/**
 * Retries when the receiver does not accept the report, as vendors do; a report that is never accepted is dropped silently.
 */
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
  if (fault.kind === 'hang') return fault.onReached?.();
  if (fault.kind === 'reset') return void response.destroy();
  response.writeHead(fault.status, { 'content-type': 'application/json', 'content-length': '1000' });
  response.write('{"', () => response.destroy());
}
