import type { IncomingMessage, ServerResponse } from 'node:http';
import { PROVIDERS } from '#providers/registry.gen.ts';
import type { AccountOf, Received, Reply } from '#providers/stand-in.ts';
import { html, PAGE_HEADERS, renderPage, type Html } from './html.ts';
import type { Arrival, ReadArrival } from './received.ts';
import type { ReadMail, SubmittedMail } from './received-mails.ts';
import { openStandInFront } from './stand-in-front.ts';
import { VENDORS, type StandInId } from './vendors.ts';

export type StandIns = AsyncDisposable & {
  /** By catalog id. */
  readonly urls: Readonly<Record<StandInId, string>>;
  /** The messages that arrived, oldest first. */
  readonly arrivals: (id: StandInId) => readonly Arrival[];
  /** Says how the vendors know their customers; until then they report only what needs no such knowledge. */
  readonly know: (accountOf: AccountOf) => void;
};

export type StandInsOptions = {
  readonly port: number;
  /** Takes each mail that a vendor has taken to its recipient. Default: nowhere. */
  readonly deliverMail?: (mail: SubmittedMail) => void;
};

const IDS = Object.keys(VENDORS) as StandInId[];

/**
 * Every vendor on one port, each with a page at its address that shows the messages it took, and all requests as JSON at
 * `/received` below it.
 */
export async function startStandIns({ port, deliverMail }: StandInsOptions): Promise<StandIns> {
  let known: AccountOf = async () => undefined;
  const accountOf: AccountOf = (reference) => known(reference);
  await using stack = new AsyncDisposableStack();
  const front = stack.use(await openStandInFront(port, showIndex));
  const started = IDS.map(async (id) => {
    const { start, readMail, hint = '' } = VENDORS[id];
    const read = readerOf(id);
    const standIn = await start({
      place: front.placeOf(id),
      isReporting: true,
      accountOf,
      page: (received) => showReceived(id, hint, read, received),
      ...(readMail === undefined || deliverMail === undefined
        ? {}
        : { interfere: relay(readMail, deliverMail) }),
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
    arrivals: (id) => arrivalsOf(readerOf(id), standIns[id].received),
    know: (accounts) => void (known = accounts),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function relay(readMail: ReadMail, deliverMail: (mail: SubmittedMail) => void) {
  return async (request: Received): Promise<undefined> => {
    const mail = readMail(request);
    if (mail !== undefined) deliverMail(mail);
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

/** What the port itself is asked: where the stand-ins are. */
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

/** Newest first; a page of more would not be read. */
const SHOWN_MAX = 200;

function showReceived(id: StandInId, hint: string, read: ReadArrival, received: readonly Received[]): Reply {
  const arrivals = arrivalsOf(read, received);
  const older = arrivals.length - SHOWN_MAX;
  const content = html`<h1>${nameOf(id)} (stand-in)</h1>
    <p class="quiet">
      Speaks the vendor's protocol and sends nothing to anyone. It takes any credential and any recipient. All
      requests as JSON: <a href="/${id}/received">/${id}/received</a>
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

/** A text that is a web address leads there; any other scheme would run what it says. */
function linkedText(text: string): Html {
  return /^https?:\/\/\S+$/.test(text) ? html`<a href="${text}">${text}</a>` : html`${text}`;
}
