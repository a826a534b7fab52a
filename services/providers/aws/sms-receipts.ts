import { z } from 'zod';
import { redact } from '../redact.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptDefinition,
} from '../receipt.ts';
import { UNDELIVERED_EVENTS } from './sms-outcomes.ts';
import { judgeEnvelope, parseEnvelope } from './sns-envelope.ts';

/** Key in a message's context, which AWS repeats in events. */
export const REFERENCE = 'despatchMessageId';

const Text = z.string().optional().catch(undefined);

/** https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-format.html */
const Event = z.looseObject({
  eventType: z.string().regex(/^TEXT_/),
  messageId: z.string().min(1),
  eventTimestamp: z.number().int().positive().optional().catch(undefined),
  /** Whether no further event of the message follows. */
  isFinal: z.boolean().optional().catch(undefined),
  messageStatus: Text,
  messageStatusDescription: Text,
  context: z
    .looseObject({ [REFERENCE]: Text })
    .nullish()
    .catch(undefined),
});

export const smsReceipts: ReceiptDefinition<{ readonly topicArn?: string | undefined }, unknown> = {
  setup: {
    mode: 'manual',
    steps: [
      'With the mode eum: in the console of AWS End User Messaging SMS, under Configuration sets, create a set and name it in configurationSetName. Publish of SNS itself reports nothing.',
      'In the set, under Event destinations, create one of the type Amazon SNS with all SMS events, and put the ARN of its standard topic into topicArn.',
      'In the console of Amazon SNS, create a subscription of this topic with the protocol HTTPS and the receipt URL of this provider account as its endpoint. Leave raw message delivery off.',
      'The subscription is confirmed by itself.',
    ],
  },
  bytesMax: 1_048_576,
  // The documentation shows the context in the event of a text, but does not say that each event contains it.
  mayLackReference: true,
  headers: [],
  verify: (call, { config }, context) => judgeEnvelope(call, config.topicArn, context),
  parse: (call) => parseEnvelope(call, readEvent),
};

function readEvent(sent: unknown, eventId: string): ParsedCall {
  const event = Event.safeParse(sent).data;
  // The topic may carry other events, such as those of voice calls.
  if (event === undefined) return { kind: 'receipts', receipts: [] };
  const reference = event.context?.[REFERENCE];
  const receipt: ParsedReceipt = {
    ...(reference === undefined ? {} : { reference }),
    providerMessageId: event.messageId,
    eventId,
    providerStatus: (event.messageStatus ?? event.eventType).slice(0, PROVIDER_STATUS_MAX),
    ...(event.eventTimestamp === undefined ? {} : { at: event.eventTimestamp }),
    ...meaningOf(event),
  };
  return { kind: 'receipts', receipts: [receipt] };
}

function meaningOf({
  eventType,
  isFinal,
  messageStatus,
  messageStatusDescription,
}: z.output<typeof Event>): Pick<ParsedReceipt, 'state' | 'isTemporary' | 'failure'> {
  if (eventType === 'TEXT_DELIVERED') return { state: 'delivered' };
  // The carrier accepted the message; some carriers never report more.
  if (['TEXT_SENT', 'TEXT_SUCCESSFUL', 'TEXT_UNKNOWN'].includes(eventType)) return { state: 'sent' };
  const known = UNDELIVERED_EVENTS[eventType];
  if (known === undefined) return {};
  const isOptOut = `${messageStatus} ${messageStatusDescription}`
    .toLowerCase()
    .replaceAll('_', ' ')
    .includes('opted out');
  return {
    state: 'undelivered',
    ...(isFinal === false ? { isTemporary: true } : {}),
    failure: {
      class: isOptOut ? 'recipient_unavailable' : known.class,
      code: isOptOut ? 'recipient_opted_out' : known.code,
      providerCode: eventType,
      ...(messageStatusDescription === undefined
        ? {}
        : { providerMessage: redact(messageStatusDescription, []) }),
    },
  };
}
