import { startFcmStandIn } from '#providers/fcm/stand-in.ts';
import type { Received, Reply, StandIn, StandInOptions } from '#providers/stand-in.ts';
import { startTwilioStandIn } from '#providers/twilio/stand-in.ts';
import { startWhatsappCloudStandIn } from '#providers/whatsapp-cloud/stand-in.ts';
import { html, PAGE_HEADERS, renderPage, type Html } from './html.ts';
import { readFcm, readTwilio, readWhatsapp, type Arrival, type ReadArrival } from './received.ts';

export const STAND_INS = {
  twilio: { name: 'Twilio', start: startTwilioStandIn, read: readTwilio },
  fcm: { name: 'Firebase Cloud Messaging', start: startFcmStandIn, read: readFcm },
  'whatsapp-cloud': { name: 'WhatsApp Cloud API', start: startWhatsappCloudStandIn, read: readWhatsapp },
} as const satisfies Record<string, Kind>;

export type StandInId = keyof typeof STAND_INS;

type Kind = {
  readonly name: string;
  readonly start: (options: StandInOptions) => Promise<StandIn>;
  readonly read: ReadArrival;
};

export type ShownStandIn = AsyncDisposable & {
  readonly origin: string;
  /** The messages that arrived, oldest first. */
  readonly arrivals: () => readonly Arrival[];
};

/** A vendor's stand-in with a page at `/` that shows the messages it took, and all requests as JSON at `/received`. */
export async function startShownStandIn(id: StandInId, port: number): Promise<ShownStandIn> {
  const { name, start, read } = STAND_INS[id];
  const standIn = await start({
    port,
    isReporting: true,
    page: (received) => showReceived(name, read, received),
  });
  return {
    origin: standIn.origin,
    arrivals: () => arrivalsOf(read, standIn.received),
    [Symbol.asyncDispose]: () => standIn[Symbol.asyncDispose](),
  };
}

function arrivalsOf(read: ReadArrival, received: readonly Received[]): Arrival[] {
  return received.map(read).filter((arrival) => arrival !== undefined);
}

/** Newest first; a page of more would not be read. */
const SHOWN_MAX = 200;

function showReceived(name: string, read: ReadArrival, received: readonly Received[]): Reply {
  const arrivals = arrivalsOf(read, received);
  const older = arrivals.length - SHOWN_MAX;
  const content = html`<h1>${name} (stand-in)</h1>
    <p class="quiet">
      Speaks the vendor's protocol and sends nothing to anyone. It takes any credential and any recipient. All
      requests as JSON: <a href="/received">/received</a>
    </p>
    ${arrivals.length === 0 ? html`<p>No message yet.</p>` : html``}
    ${arrivals.slice(-SHOWN_MAX).toReversed().map(card)}
    ${older > 0 ? html`<p class="quiet">${older} older ones are in the JSON.</p>` : html``}`;
  return {
    status: 200,
    headers: PAGE_HEADERS,
    body: renderPage({ title: name, content, refreshSeconds: 5 }),
  };
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
