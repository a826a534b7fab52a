import { toEnvelope } from '#core/domain/webhooks/event-envelope.ts';
import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import { maskedEvent } from '#core/domain/recipient/masked-event.ts';

/** The envelope's text for one endpoint, with the event's number in that endpoint's feed. */
type Text = { readonly json: string; readonly seq: number };
type Texts = { plain?: Text; masked?: Text };

/** Marks the beginning of the data; nothing before it in the envelope can contain this text. */
const BEFORE_SEQ = '"data":{"seq":';

/**
 * Cached as long as the event lives, so that endpoints that get the same event share the work. Each endpoint has its own copy of
 * the event with its own number, but all copies share the same message object, which is the key.
 */
const known = new WeakMap<object, Texts>();

/**
 * Returns the body that an endpoint gets for an event: its envelope as JSON.
 * @param seq the event's number in the endpoint's feed.
 * @param isMasked whether to mask the recipient (`maskedEvent`).
 * @throws if the stored event does not match its type.
 */
export function eventBody(event: StoredEvent, seq: number, isMasked: boolean): Buffer {
  const kind = isMasked ? 'masked' : 'plain';
  const texts = textsOf(event);
  const text = (texts[kind] ??= write(kind === 'masked' ? maskedEvent(event) : event, seq));
  // Most events go to one endpoint, whose text is used unchanged.
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
