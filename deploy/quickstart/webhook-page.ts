import { html, renderPage, type Html } from './html.ts';
import { gapsOf, type NumberRanges } from './number-ranges.ts';
import { eventOf } from './received-event.ts';
import type { ReceivedWebhook } from './webhook-receiver.ts';

/** Newest first; nobody reads a longer page. */
const SHOWN_MAX = 200;
const GAPS_SHOWN_MAX = 20;

/** @param numbers numbers of all genuine events that arrived, by endpoint. */
export function receivedPage(
  received: readonly ReceivedWebhook[],
  numbers: ReadonlyMap<string, NumberRanges>,
): string {
  const older = received.length - SHOWN_MAX;
  const content = html`<h1>Events received</h1>
    <p class="quiet">
      What was posted here, as a tenant's own program would take it. Its signature is checked by the rules of
      Standard Webhooks. As JSON: <a href="/received">/received</a>
    </p>
    ${numbers.size === 0 ? html`` : numbersTable(numbers)}
    ${received.length === 0 ? html`<p>No event yet.</p>` : callsTable(received)}
    ${older > 0 ? html`<p class="quiet">${older} older ones are in the JSON.</p>` : html``}`;
  return renderPage({ title: 'Events received', content, refreshSeconds: 2 });
}

function numbersTable(numbers: ReadonlyMap<string, NumberRanges>): Html {
  return html`<table class="facts">
    ${[...numbers].map(
      ([endpointId, ranges]) =>
        html`<tr>
          <th>Endpoint ${endpointId}</th>
          <td>numbers ${ranges[0]?.[0] ?? 0} to ${ranges.at(-1)?.[1] ?? 0}, ${missing(ranges)}</td>
        </tr>`,
    )}
  </table>`;
}

function missing(ranges: NumberRanges): Html {
  const gaps = gapsOf(ranges);
  if (gaps.length === 0) return html`none missing`;
  const shown = gaps
    .slice(0, GAPS_SHOWN_MAX)
    .map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`));
  return html`<b>missing: ${shown.join(', ')}${gaps.length > GAPS_SHOWN_MAX ? ' and more' : ''}</b>`;
}

function callsTable(received: readonly ReceivedWebhook[]): Html {
  return html`<table>
    <tr>
      <th>Received</th>
      <th>Number</th>
      <th>Type</th>
      <th>Happened</th>
      <th>Message</th>
      <th>Signature</th>
    </tr>
    ${received.slice(-SHOWN_MAX).toReversed().map(callRow)}
  </table>`;
}

function callRow(call: ReceivedWebhook): Html {
  const { type, seq, timestamp, messageId } = eventOf(call);
  return html`<tr>
    <td class="quiet">${new Date(call.at).toISOString()}</td>
    <td>${seq ?? '-'}</td>
    <td>${type || '(no type)'}${call.repeated ? html` <span class="quiet">(again)</span>` : html``}</td>
    <td class="quiet">${timestamp}</td>
    <td>${messageId}</td>
    <td>${signatureCell(call)}</td>
  </tr>`;
}

function signatureCell({ signature }: ReceivedWebhook): Html {
  return signature.verified
    ? html`verified (${signature.schemes.join(', ')})`
    : html`<b>not verified</b>: ${signature.reason}`;
}
