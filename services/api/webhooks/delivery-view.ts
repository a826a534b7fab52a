import { z } from 'zod';
import { DELIVERY_STATUSES } from '#core/domain/webhooks/delivery-state.ts';
import type { DeliveryIds } from '#core/domain/webhooks/delivery-id.ts';
import { SEQ_MAX } from '#core/domain/webhooks/event-schemas.ts';
import { INT32_MAX } from '#core/domain/int32-max.ts';
import {
  RECOVERED_MAX,
  type CallOutcome,
  type Delivery as DeliveryRecord,
  type LoggedCall,
} from '#core/store/webhooks/endpoint-deliveries.ts';
import type { EndpointRecord } from '#core/store/webhooks/webhook-endpoints.ts';
import { iso } from '../http/iso.ts';
import { warningsField } from '../http/routes/request-warnings.ts';

const CALLS_MAX = 32_767;

const CALL_EXAMPLE = {
  durationMs: 84,
  responseStatus: 200,
  error: null,
  responseBody: 'ok',
};
const DELIVERY_EXAMPLE = {
  id: '2c6f5f1f-7a10-4f3a-9d7c-1e2f3a4b5c6d',
  endpointId: '7b1e0a64-2f83-4c1d-9a57-6e0d4f3c2b18',
  eventId: 'e3a2b1c0-9d8e-4f7a-b6c5-d4e3f2a1b0c9',
  eventType: 'message.delivered',
  seq: 1_042,
  status: 'succeeded',
  attempts: 1,
  nextAttemptAt: null,
  lastAttemptAt: '2026-01-15T09:30:02.600Z',
  ...CALL_EXAMPLE,
};

const call = {
  durationMs: z.int().min(0).max(INT32_MAX).describe('From the start of the call to its end.'),
  responseStatus: z.int().min(100).max(999).nullable().describe('Null if there was no answer.'),
  error: z
    .string()
    .nullable()
    .describe(
      'Why there was no answer, or no valid one: `timeout`, `tls`, `dns`, `egress_blocked` and others.',
    ),
  responseBody: z
    .string()
    .nullable()
    .describe("The first KiB of the answer's body; null if it was empty, or there was no answer."),
};

const LoggedAttempt = z
  .object({
    number: z.int().min(1).max(CALLS_MAX).describe('1, 2, and so on.'),
    at: z.iso.datetime().describe('When the call began.'),
    ...call,
  })
  .meta({
    id: 'WebhookAttempt',
    description: 'One call to the endpoint.',
    examples: [{ number: 1, at: '2026-01-15T09:30:02.600Z', ...CALL_EXAMPLE }],
  });

export const Delivery = z
  .object({
    id: z.uuid(),
    endpointId: z.uuid(),
    eventId: z.uuid().describe('`webhook-id` of the call, and the `id` of the event in the feed.'),
    eventType: z.string(),
    seq: z.int().min(1).max(SEQ_MAX).describe("The event's number in the endpoint's feed, `data.seq`."),
    status: z
      .enum(DELIVERY_STATUSES)
      .describe(
        '`pending`: waits for a call, and no call has failed, or none since the last success. `in_flight`: a call is under way. `retrying`: a call has failed, and another one follows. `exhausted`: given up.',
      ),
    attempts: z.int().min(0).max(CALLS_MAX).describe('Number of calls that have ended.'),
    nextAttemptAt: z.iso
      .datetime()
      .nullable()
      .describe(
        'Earliest time of the next call. Null if there is none, or if the delivery waits for an earlier event of its message or for its endpoint to be resumed.',
      ),
    lastAttemptAt: z.iso
      .datetime()
      .nullable()
      .describe('When the last call began; null until a call has ended.'),
    durationMs: call.durationMs.nullable(),
    responseStatus: call.responseStatus,
    error: call.error,
    responseBody: call.responseBody,
    ...warningsField,
  })
  .meta({
    id: 'WebhookDelivery',
    description: 'One event for one endpoint, with the result of its last call.',
    examples: [DELIVERY_EXAMPLE],
  });

export const DeliveryWithLog = Delivery.extend({
  attemptLog: z.array(LoggedAttempt).describe('Every call, the newest last; at most the newest hundred.'),
}).meta({
  id: 'WebhookDeliveryWithLog',
  description: 'A delivery with all of its calls.',
  examples: [
    {
      ...DELIVERY_EXAMPLE,
      attemptLog: [{ number: 1, at: '2026-01-15T09:30:02.600Z', ...CALL_EXAMPLE }],
    },
  ],
});

export const Recovered = z
  .object({
    recovered: z.int().min(0).max(RECOVERED_MAX).describe('Deliveries that are due now.'),
    more: z.boolean().describe('Whether there may be more: call again with `nextSince` as `since`.'),
    nextSince: z.iso.datetime().nullable().describe('Null if there are no more.'),
    ...warningsField,
  })
  .meta({
    id: 'RecoveredDeliveries',
    description: 'The deliveries that will be repeated.',
    examples: [{ recovered: 317, more: false, nextSince: null }],
  });

export function viewDelivery(
  ids: DeliveryIds,
  { id: endpointId, number: endpoint }: Pick<EndpointRecord, 'id' | 'number'>,
  { seq, event, status, attempts, nextAttemptAt, lastCall }: DeliveryRecord,
): z.output<typeof Delivery> {
  return {
    id: ids.encode(endpointId, { endpoint, seq }),
    endpointId,
    eventId: event.id,
    eventType: event.type,
    seq,
    status,
    attempts,
    nextAttemptAt: iso(nextAttemptAt),
    lastAttemptAt: lastCall?.at.toISOString() ?? null,
    durationMs: null,
    responseStatus: null,
    error: null,
    responseBody: null,
    ...(lastCall === null ? {} : viewCall(lastCall)),
  };
}

export function viewLoggedCall(logged: LoggedCall): z.output<typeof LoggedAttempt> {
  return { number: logged.number, at: logged.at.toISOString(), ...viewCall(logged) };
}

function viewCall({ durationMs, responseStatus, error, responseBody }: CallOutcome) {
  return { durationMs, responseStatus, error, responseBody };
}
