import { asObject, parseObject, textOf } from './json-text.ts';

/** What a body says about itself, whoever wrote it. */
export type ReceivedEvent = {
  readonly type: string;
  readonly timestamp: string;
  /** Its number in the endpoint's feed. */
  readonly seq: number | undefined;
  /** Empty where it is none of a message. */
  readonly messageId: string;
};

/** Reads an event's envelope; what is not there is empty. */
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
