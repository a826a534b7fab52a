import { asObject, parseObject, textOf } from './json-text.ts';

/** The unverified content of an event's body. */
export type ReceivedEvent = {
  readonly type: string;
  readonly timestamp: string;
  /** The event's number in the endpoint's feed. */
  readonly seq: number | undefined;
  /** Empty when the event is not about a message. */
  readonly messageId: string;
};

/** Parses an event's envelope; missing fields are empty. */
export function eventOf({ body }: { readonly body: string }): ReceivedEvent {
  const { type, timestamp, data } = parseObject(body);
  const { seq, messageId } = asObject(data);
  return {
    type: textOf(type),
    timestamp: textOf(timestamp),
    seq: Number.isSafeInteger(seq) && Number(seq) > 0 ? Number(seq) : undefined,
    messageId: textOf(messageId),
  };
}
