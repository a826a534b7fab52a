import type { IncomingMessage, ServerResponse } from 'node:http';
import { PROVIDERS } from '#providers/registry.gen.ts';
import type { AccountOf, Received, Reply } from '#providers/stand-in.ts';
import { html, PAGE_HEADERS, renderPage, type Html } from './html.ts';
import type { Arrival, Fact, ReadArrival } from './received.ts';
import type { SubmittedMail } from './received-mails.ts';
import { createOutage, withOutage, type Outage } from './outages.ts';
import { openStandInFront } from './stand-in-front.ts';
import { VENDORS, type StandInId } from './vendors.ts';

export type StandIns = AsyncDisposable & {
  /** By catalog id. */
  readonly urls: Readonly<Record<StandInId, string>>;
  /** Returns the accepted messages, oldest first. */
  readonly arrivals: (id: StandInId) => readonly Arrival[];
  /** Makes a vendor refuse its next messages as if it were down, like `POST /outage?messages=` at its URL. */
  readonly fail: (id: StandInId, messages: number) => void;
  /** Sets how the vendors find their customers; before that they send only reports that need no customer data. */
  readonly know: (accountOf: AccountOf) => void;
};

export type StandInsOptions = {
  readonly port: number;
  /** Delivers each mail that a vendor accepted to its recipient. Default: not delivered. */
  readonly deliverMail?: (mail: SubmittedMail) => void;
};

const IDS = Object.keys(VENDORS) as StandInId[];

/**
 * Starts every vendor's stand-in on one port. Each has a page at its URL with the messages that it accepted, and all its
 * requests as JSON at `/received` below it.
 */
export async function startStandIns({ port, deliverMail }: StandInsOptions): Promise<StandIns> {
  let known: AccountOf = async () => undefined;
  const accountOf: AccountOf = (reference) => known(reference);
  await using stack = new AsyncDisposableStack();
  const outages = Object.fromEntries(IDS.map((id) => [id, createOutage()])) as Record<StandInId, Outage>;
  const front = stack.use(await openStandInFront(port, showIndex));
  const started = IDS.map(async (id) => {
    const { start, readMail, hint = '' } = VENDORS[id];
    const [read, outage, place] = [readerOf(id), outages[id], front.placeOf(id)];
    const standIn = await start({
      place: (listener) => place(withOutage(outage, listener)),
      isReporting: true,
      accountOf,
      page: (received) => showReceived(id, hint, { read, outage }, received),
      interfere: async (request) => {
        const fault = read(request) === undefined ? undefined : outage.faultFor(request);
        const mail = fault === undefined ? readMail?.(request) : undefined;
        if (mail !== undefined) deliverMail?.(mail);
        return fault;
      },
    });
    return [id, stack.use(standIn)] as const;
  });
  const standIns = Object.fromEntries(await Promise.all(started)) as Record<
    StandInId,
    Awaited<(typeof started)[number]>[1]
  >;
  const resources = stack.move();
  return {
    urls: Object.fromEntries(IDS.map((id) => [id, standIns[id].origin])) as Record<StandInId, string>,
    arrivals: (id) => {
      const taken = standIns[id].received.filter((request) => !outages[id].hasRefused(request));
      return arrivalsOf(readerOf(id), taken);
    },
    fail: (id, messages) => outages[id].begin(messages),
    know: (accounts) => void (known = accounts),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function readerOf(id: StandInId): ReadArrival {
  const { read, readMail } = VENDORS[id];
  return (request) => {
    const mail = readMail?.(request);
    if (mail === undefined) return read?.(request);
    const { to, from, subject, text, html: markup } = mail;
    return { at: request.at, to, from, text: `${subject}\n\n${text || markup}` };
  };
}

function arrivalsOf(read: ReadArrival, received: readonly Received[]): Arrival[] {
  return received.map(read).filter((arrival) => arrival !== undefined);
}

/** Lists the stand-ins at the port's root. */
function showIndex({ url }: IncomingMessage, response: ServerResponse): void {
  const content =
    url === '/'
      ? html`<h1>Stand-ins</h1>
          <p class="quiet">One for each provider of the catalog. They send nothing to anyone.</p>
          <table class="list">
            ${IDS.map(
              (id) =>
                html`<tr>
                  <td><a href="/${id}">${nameOf(id)}</a></td>
                  <td class="quiet">${id}</td>
                </tr>`,
            )}
          </table>`
      : html`<h1>Not found</h1>
          <p><a href="/">All stand-ins</a></p>`;
  const title = url === '/' ? 'Stand-ins' : 'Not found';
  response.writeHead(url === '/' ? 200 : 404, PAGE_HEADERS).end(renderPage({ title, content }));
}

const REFUSED: Fact = ['answered', '503, as it was told to refuse'];

/** Newest first; nobody reads a longer page. */
const SHOWN_MAX = 200;

type Reading = { readonly read: ReadArrival; readonly outage: Outage };

function showReceived(
  id: StandInId,
  hint: string,
  { read, outage }: Reading,
  received: readonly Received[],
): Reply {
  const arrivals = arrivalsOf((request) => {
    const arrival = read(request);
    if (arrival === undefined || !outage.hasRefused(request)) return arrival;
    return { ...arrival, facts: [...(arrival.facts ?? []), REFUSED] };
  }, received);
  const older = arrivals.length - SHOWN_MAX;
  const content = html`<h1>${nameOf(id)} (stand-in)</h1>
    <p class="quiet">
      Speaks the vendor's protocol and sends nothing to anyone. It takes any credential and any recipient. All
      requests as JSON: <a href="/${id}/received">/${id}/received</a>.
      <code>POST /${id}/outage?messages=1</code>
      has it refuse as many of its next messages, as a vendor does that is down.
    </p>
    ${hint === '' ? html`` : html`<p class="quiet">${hint}</p>`}
    ${arrivals.length === 0 ? html`<p>No message yet.</p>` : html``}
    ${arrivals.slice(-SHOWN_MAX).toReversed().map(card)}
    ${older > 0 ? html`<p class="quiet">${older} older ones are in the JSON.</p>` : html``}`;
  return {
    status: 200,
    headers: PAGE_HEADERS,
    body: renderPage({ title: nameOf(id), content, refreshSeconds: 5 }),
  };
}

function nameOf(id: StandInId): string {
  return PROVIDERS.get(id)?.name ?? id;
}

function card({ at, to, from, text, facts = [] }: Arrival): Html {
  const rows = facts.map(
    ([name, value]) =>
      html`<tr>
        <th>${name}</th>
        <td>${linkedText(value)}</td>
      </tr>`,
  );
  return html`<article>
    <p class="quiet">${new Date(at).toISOString()}</p>
    <p>To <b>${to}</b> from <b>${from}</b></p>
    ${text === '' ? html`` : html`<pre>${text}</pre>`}
    ${
      rows.length === 0
        ? html``
        : html`<table class="facts">
            ${rows}
          </table>`
    }
  </article>`;
}

/** Links a text only if it is an http(s) URL; a link with another scheme could run code. */
function linkedText(text: string): Html {
  return /^https?:\/\/\S+$/.test(text) ? html`<a href="${text}">${text}</a>` : html`${text}`;
}
