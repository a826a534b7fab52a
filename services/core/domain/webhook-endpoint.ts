import type { Channel } from './channel.ts';
import type { StoredEvent } from './event-envelope.ts';

/** Which of its tenant's events an endpoint is told of. */
export type EndpointFilters = {
  /** Types, beginnings of several such as `message.*`, or `*` for all. */
  readonly eventTypes: readonly string[];
  /** Of what happens to messages, only how it ended. */
  readonly finalOnly: boolean;
  /** Of messages of these alone; empty: of all. It says nothing about events that are none of a message. */
  readonly channels: readonly Channel[];
  /** Of messages that have one of these; empty: of all. Neither does it. */
  readonly tags: readonly string[];
};

/** Whether all of an endpoint's filters let an event pass. */
export function matchesEndpoint(filters: EndpointFilters, { type, message }: StoredEvent): boolean {
  if (!filters.eventTypes.some((wanted) => isOfType(type, wanted))) return false;
  if (message === null) return true;
  if (filters.finalOnly && !message.isFinal) return false;
  if (filters.channels.length > 0 && !filters.channels.includes(message.channel)) return false;
  return filters.tags.length === 0 || (message.tags ?? []).some((tag) => filters.tags.includes(tag));
}

function isOfType(type: string, wanted: string): boolean {
  return wanted.endsWith('*') ? type.startsWith(wanted.slice(0, -1)) : type === wanted;
}
