import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Fault, Received } from '#providers/stand-in.ts';

/** A simulated vendor outage for a number of messages. */
export type Outage = {
  /** Refuses the next messages, 0 to 1000 of them; replaces the previous number. */
  readonly begin: (messages: number) => void;
  /** Returns the fault for a call with a message, if the outage refuses it. */
  readonly faultFor: (request: Received) => Fault | undefined;
  /** Returns whether the outage refused the call. */
  readonly hasRefused: (request: Received) => boolean;
};

const MESSAGES_MAX = 1_000;
const UNAVAILABLE: Fault = {
  kind: 'reply',
  status: 503,
  body: { message: 'Service Unavailable: this stand-in was told to refuse' },
};

export function createOutage(): Outage {
  const refused = new WeakSet<Received>();
  let left = 0;
  return {
    begin: (messages) => void (left = messages),
    faultFor(request) {
      if (left === 0) return undefined;
      left -= 1;
      refused.add(request);
      return UNAVAILABLE;
    },
    hasRefused: (request) => refused.has(request),
  };
}

/** Handles `POST /outage?messages=2` and passes every other request to the stand-in. */
export function withOutage({ begin }: Outage, listener: RequestListener): RequestListener {
  return (request: IncomingMessage, response: ServerResponse) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://stand-in');
    if (request.method !== 'POST' || pathname !== '/outage') return listener(request, response);
    request.resume();
    const messages = Number(searchParams.get('messages') ?? 1);
    const isFine = Number.isInteger(messages) && messages >= 0 && messages <= MESSAGES_MAX;
    if (isFine) begin(messages);
    response.writeHead(isFine ? 204 : 400).end(isFine ? '' : `messages must be 0 to ${MESSAGES_MAX}\n`);
  };
}
