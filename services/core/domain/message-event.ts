import { MESSAGE_STATES, type MessageState } from './message-state.ts';

/** What can happen to a message: each of its states, and what is no state. With those to come. */
export const MESSAGE_EVENT_TYPES = [
  ...MESSAGE_STATES.map((state): `message.${MessageState}` => `message.${state}`),
  'message.released',
  'message.rescheduled',
  'message.failed_over',
  'message.receipt',
  'message.engagement',
] as const;
export type MessageEventType = (typeof MESSAGE_EVENT_TYPES)[number];

/** Who brings an event about: a request, a worker, a provider's receipt, or a change of the tenant. */
export const EVENT_SOURCES = ['api', 'worker', 'receipt', 'system'] as const;
export type EventSource = (typeof EVENT_SOURCES)[number];
