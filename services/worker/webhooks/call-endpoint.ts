import { deliveryDelayMs } from '#core/domain/webhooks/delivery-schedule.ts';
import type { ClaimedEvent, DeliveryClaim, WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import {
  deliverEvent,
  type DeliverEventDeps,
  type DeliveredEvent,
  type ReadyEndpoint,
} from './deliver-event.ts';
import type { Afterwards } from './endpoint-run.ts';
import { eventBody } from './event-body.ts';

export type CallEndpointDeps = DeliverEventDeps & {
  readonly random: () => number;
  /** Called for an event that matches no schema of its type, which only a bug can cause. */
  readonly onUnreadable: (endpoint: WebhookEndpoint, eventId: string, error: unknown) => void;
};

export type Called = {
  readonly endpoint: WebhookEndpoint;
  readonly claimed: ClaimedEvent;
  readonly attempt: number;
  readonly delivered: DeliveredEvent;
  /** The call failed, and there will be no retry. */
  readonly isExhausted: boolean;
};

/**
 * Calls an endpoint for one claimed event, and decides when to call again. `isMade`: false if the event is unreadable, which says
 * nothing about the endpoint.
 */
export async function callEndpoint(
  ready: ReadyEndpoint,
  claimed: ClaimedEvent,
  claim: Pick<DeliveryClaim, 'endpoint' | 'attempts' | 'manual'>,
  deps: CallEndpointDeps,
): Promise<{ readonly called: Called; readonly after: Afterwards; readonly isMade: boolean }> {
  const body = bodyOf(ready.endpoint, claimed, deps);
  const delivered =
    body === undefined ? unreadable(deps.epochMs()) : await deliverEvent(ready, claimed.event.id, body, deps);
  const attempt = claim.attempts + 1;
  const againAt = delivered.succeeded || claim.manual ? null : againAfter(attempt, delivered, deps);
  return {
    called: {
      endpoint: claim.endpoint,
      claimed,
      attempt,
      delivered,
      isExhausted: !delivered.succeeded && againAt === null,
    },
    after: {
      attempt: {
        seq: claimed.seq,
        attempt,
        at: delivered.at,
        durationMs: delivered.durationMs,
        status: delivered.response?.status ?? null,
        error: delivered.error,
        answer: delivered.answer,
        succeeded: delivered.succeeded,
      },
      againAt,
    },
    isMade: body !== undefined,
  };
}

function bodyOf(
  endpoint: WebhookEndpoint,
  { event, seq }: ClaimedEvent,
  { onUnreadable }: CallEndpointDeps,
): Buffer | undefined {
  try {
    return eventBody(event, seq, endpoint.maskRecipients);
  } catch (error) {
    onUnreadable(endpoint, event.id, error);
    return undefined;
  }
}

function againAfter(
  attempts: number,
  { retryAfterMs = 0 }: DeliveredEvent,
  { random, epochMs }: CallEndpointDeps,
): Date | null {
  const delayMs = deliveryDelayMs(attempts, random());
  return delayMs === null ? null : new Date(epochMs() + Math.max(delayMs, retryAfterMs));
}

function unreadable(now: number): DeliveredEvent {
  return {
    at: new Date(now),
    durationMs: 0,
    sent: {},
    response: null,
    error: 'unreadable_event',
    answer: null,
    succeeded: false,
    retryAfterMs: undefined,
  };
}
