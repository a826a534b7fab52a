import { MESSAGE_STATES, type MessageState } from './message-state.ts';

/** All events of a message: each of its states, and others that are no state. Includes types that are not used yet. */
export const MESSAGE_EVENT_TYPES = [
  ...MESSAGE_STATES.map((state): `message.${MessageState}` => `message.${state}`),
  'message.released',
  'message.rescheduled',
  'message.failed_over',
  'message.receipt',
  'message.engagement',
] as const;
export type MessageEventType = (typeof MESSAGE_EVENT_TYPES)[number];

/** The source of an event: a request, a worker, a provider's receipt, or a change of the tenant. */
export const EVENT_SOURCES = ['api', 'worker', 'receipt', 'system'] as const;
export type EventSource = (typeof EVENT_SOURCES)[number];
