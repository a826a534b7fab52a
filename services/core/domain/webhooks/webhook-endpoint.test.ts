import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CHANNELS } from '../message/channel.ts';
import type { StoredEvent } from './stored-event.ts';
import { FEED_EVENT_TYPES } from './feed-event.ts';
import { matchesEndpoint, type EndpointFilters } from './webhook-endpoint.ts';

const ALL: EndpointFilters = { eventTypes: ['*'], finalOnly: false, channels: [], tags: [] };
const MESSAGE: NonNullable<StoredEvent['message']> = {
  sequence: 1,
  id: 'b7e23ec2-9f0a-4b1c-8d2e-3f4a5b6c7d8e',
  test: false,
  externalId: null,
  channel: 'sms',
  to: '+15550000001',
  category: 'transactional',
  metadata: null,
  tags: null,
  attempt: null,
  accountId: null,
  provider: null,
  isFinal: false,
};

function event(type: StoredEvent['type'], of: Partial<typeof MESSAGE> = {}): StoredEvent {
  const message = type.startsWith('message.') ? { ...MESSAGE, ...of } : null;
  return { seq: 1, id: MESSAGE.id, type, at: new Date(0), details: null, message };
}

const events = fc.record({
  type: fc.constantFrom(...FEED_EVENT_TYPES),
  channel: fc.constantFrom(...CHANNELS),
  tags: fc.option(fc.uniqueArray(fc.constantFrom('a', 'b', 'c'))),
  isFinal: fc.boolean(),
});
const filters = fc.record({
  eventTypes: fc.uniqueArray(
    fc.constantFrom(...FEED_EVENT_TYPES, 'message.*', 'provider.*', 'tenant.*', '*'),
    {
      minLength: 1,
    },
  ),
  finalOnly: fc.boolean(),
  channels: fc.uniqueArray(fc.constantFrom(...CHANNELS)),
  tags: fc.uniqueArray(fc.constantFrom('a', 'b', 'c')),
});

describe('a webhook endpoint receives', () => {
  test('events of its types, also by wildcard', () => {
    const told = (eventTypes: string[]) =>
      FEED_EVENT_TYPES.filter((type) => matchesEndpoint({ ...ALL, eventTypes }, event(type)));
    expect(told(['*'])).toEqual(FEED_EVENT_TYPES);
    expect(told(['tenant.*'])).toEqual([
      'tenant.suspended',
      'tenant.resumed',
      'tenant.brake_applied',
      'tenant.brake_lifted',
    ]);
    expect(told(['message.sent', 'tenant.resumed'])).toEqual(['message.sent', 'tenant.resumed']);
    expect(told(['message'])).toEqual([]);
  });

  test('only final message events with finalOnly, and all other events', () => {
    const final = { ...ALL, finalOnly: true };
    expect(matchesEndpoint(final, event('message.sent'))).toBe(false);
    expect(matchesEndpoint(final, event('message.sent', { isFinal: true }))).toBe(true);
    expect(matchesEndpoint(final, event('provider.invalid'))).toBe(true);
  });

  test('message events of its channels and tags, and all other events', () => {
    const narrow: EndpointFilters = { ...ALL, channels: ['email', 'push'], tags: ['a', 'b'] };
    const told = (of: Partial<typeof MESSAGE>) => matchesEndpoint(narrow, event('message.queued', of));
    expect(told({ channel: 'push', tags: ['b', 'c'] })).toBe(true);
    expect(told({ channel: 'sms', tags: ['b'] })).toBe(false);
    expect(told({ channel: 'email', tags: ['c'] })).toBe(false);
    expect(told({ channel: 'email', tags: null })).toBe(false);
    expect(matchesEndpoint(narrow, event('tenant.suspended'))).toBe(true);
  });

  test('an event exactly if it passes each filter alone', () => {
    fc.assert(
      fc.property(filters, events, (wanted, { type, ...of }) => {
        const told = event(type, of);
        const isTold = matchesEndpoint(wanted, told);
        const one = wanted.eventTypes.map((of) => matchesEndpoint({ ...wanted, eventTypes: [of] }, told));
        expect(isTold).toBe(one.includes(true));
        for (const wider of [{ finalOnly: false }, { channels: [] }, { tags: [] }, { eventTypes: ['*'] }])
          if (isTold) expect(matchesEndpoint({ ...wanted, ...wider }, told)).toBe(true);
        // An event passes exactly if it passes each filter alone.
        const alone: EndpointFilters[] = [
          { ...ALL, eventTypes: wanted.eventTypes },
          { ...ALL, finalOnly: wanted.finalOnly },
          { ...ALL, channels: wanted.channels },
          { ...ALL, tags: wanted.tags },
        ];
        expect(isTold).toBe(alone.every((filter) => matchesEndpoint(filter, told)));
      }),
    );
  });
});
