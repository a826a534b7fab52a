import { toEnvelope, type StoredEvent } from '#core/domain/event-envelope.ts';
import { maskedEvent } from '#core/domain/masked-event.ts';

/** The envelope's text with the number that the event has for the endpoint that it was written for: each has its own. */
type Text = { readonly json: string; readonly seq: number };
type Texts = { plain?: Text; masked?: Text };

/** It is where the data begins, and nothing before it can hold this. */
const BEFORE_SEQ = '"data":{"seq":';

/**
 * Kept as long as the event is: endpoints that are told of the same one share the work. Each has the event as a copy with its
 * own number, and what it says of the message is the same object in all of them.
 */
const known = new WeakMap<object, Texts>();

/**
 * What an endpoint is sent for an event: its envelope as JSON.
 * @param seq of the endpoint's feed. @param isMasked the recipient is told as `maskedEvent` does.
 * @throws where what is stored is no event of its type.
 */
export function eventBody(event: StoredEvent, seq: number, isMasked: boolean): Buffer {
  const kind = isMasked ? 'masked' : 'plain';
  const texts = textsOf(event);
  const text = (texts[kind] ??= write(kind === 'masked' ? maskedEvent(event) : event, seq));
  // Most events have one endpoint: their text is taken as it is.
  return Buffer.from(text.seq === seq ? text.json : renumbered(text, seq));
}

function textsOf(event: StoredEvent): Texts {
  const key = event.message ?? event;
  const before = known.get(key);
  if (before !== undefined) return before;
  const texts: Texts = {};
  known.set(key, texts);
  return texts;
}

function write(event: StoredEvent, seq: number): Text {
  return { json: JSON.stringify(toEnvelope({ ...event, seq })), seq };
}

function renumbered({ json, seq: first }: Text, seq: number): string {
  const at = json.indexOf(BEFORE_SEQ);
  if (at === -1) throw new TypeError('An event has no number');
  const seqAt = at + BEFORE_SEQ.length;
  return `${json.slice(0, seqAt)}${seq}${json.slice(seqAt + String(first).length)}`;
}
