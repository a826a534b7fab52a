import type { Channel } from '../message/channel.ts';
import type { StoredEvent } from './stored-event.ts';

/** The filters that decide which of its tenant's events an endpoint gets. */
export type EndpointFilters = {
  /** Types, prefixes such as `message.*`, or `*` for all. */
  readonly eventTypes: readonly string[];
  /** Of a message's events, only its end. */
  readonly finalOnly: boolean;
  /** Only messages of these channels; empty: all. Does not affect events that are not about a message. */
  readonly channels: readonly Channel[];
  /** Only messages with one of these tags; empty: all. Does not affect events that are not about a message. */
  readonly tags: readonly string[];
};

/** Returns whether an event passes all of an endpoint's filters. */
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
