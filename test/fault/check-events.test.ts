import { expect, test } from 'vitest';
import { checkEndpoint, checkSilentEvents } from './check-events.ts';
import type { ReceivedEvent } from './ledger.ts';
import type { EndpointRecord } from './records.ts';

const record = (overrides: Partial<EndpointRecord> = {}): EndpointRecord => ({
  id: 'e',
  tenantId: 't',
  ordered: true,
  lastSeq: 2,
  holes: 0,
  missing: 0,
  surplus: 0,
  due: [],
  ...overrides,
});

const event = (seq: number, overrides: Partial<ReceivedEvent> = {}): ReceivedEvent => ({
  endpointId: 'e',
  id: `event-${seq}`,
  seq,
  messageId: 'm',
  failover: null,
  fault: null,
  isTaken: true,
  at: seq * 100,
  ...overrides,
});

const both = [event(1), event(2)];
const namesOf = (endpoint: EndpointRecord, received: readonly ReceivedEvent[]) => [
  ...new Set(checkEndpoint(endpoint, received).map(({ name }) => name)),
];

test.each<[string, EndpointRecord, ReceivedEvent[]]>([
  ['each event once', record(), both],
  ['one that comes again', record(), [...both, event(1, { at: 900 })]],
  ['one that was not taken at first', record(), [event(1, { isTaken: false, at: 50 }), ...both]],
  [
    'the later one first, of another message',
    record(),
    [event(1, { at: 900 }), event(2, { messageId: 'n' })],
  ],
  ['one that is still to be told of', record({ due: [2] }), [event(1)]],
  ['the later one first, without an order', record({ ordered: false }), [event(2), event(1, { at: 900 })]],
])('%s is fine', (_, endpoint, received) => {
  expect(namesOf(endpoint, received)).toEqual([]);
});

test.each<[string, string, EndpointRecord, ReceivedEvent[]]>([
  ['a hole', 'endpoint_feed', record({ holes: 1 }), both],
  ['a feed without events', 'endpoint_feed', record({ lastSeq: 0 }), []],
  ['an event that was left out', 'endpoint_feed', record({ missing: 1 }), both],
  ['an event that is there twice', 'endpoint_feed', record({ surplus: 1 }), both],
  [
    'a bad signature',
    'signatures',
    record(),
    [...both, event(2, { fault: 'forged', isTaken: false, at: 900 })],
  ],
  ['one that never came', 'told', record(), [event(1)]],
  ['one that was never taken', 'told', record(), [event(1), event(2, { isTaken: false })]],
  ['one too many', 'told', record(), [...both, event(3)]],
  ['a number for two events', 'told', record(), [...both, event(2, { id: 'other', at: 900 })]],
  ['two numbers of an event', 'told', record({ lastSeq: 3 }), [...both, event(3, { id: 'event-2' })]],
  ['one before its time', 'ordered', record(), [event(2), event(1, { at: 900 })]],
  [
    'one before the earlier was taken',
    'ordered',
    record(),
    [event(1, { isTaken: false }), event(2), event(1, { at: 900 })],
  ],
])('%s is not', (_, name, endpoint, received) => {
  expect(namesOf(endpoint, received)).toEqual([name]);
});

const failover = { why: 'receipt_timeout', from: 'i1', to: 'i2' };
const moved = (from: string | null = 'i1', to = 'i2') => event(2, { failover: { ...failover, from, to } });
const stored = { id: 'm', silences: [{ from: 'a1', to: 'a2', fromId: 'i1', toId: 'i2', at: 0 }] };

test.each<[string, EndpointRecord, ReceivedEvent[], (typeof stored)[], number]>([
  ['told of as it is on record', record(), [event(1), moved()], [stored], 0],
  ['told of twice', record(), [moved(), moved()], [stored], 0],
  [
    'refused, and told of as that',
    record(),
    [event(2, { failover: { ...failover, why: 'refused' } })],
    [],
    0,
  ],
  ['still to be told of', record({ due: [2] }), [event(1)], [stored], 0],
  ['not told of', record(), both, [stored], 1],
  ['told of and not taken', record(), [{ ...moved(), isTaken: false }], [stored], 1],
  ['told of and not on record', record(), [moved()], [], 1],
  ['told of as from another account', record(), [moved('i3')], [stored], 2],
  ['told of as to another account', record(), [moved('i1', 'i3')], [stored], 2],
])('a failover for want of a receipt that is %s', (_, endpoint, received, records, count) => {
  const found = checkSilentEvents(endpoint, received, records);
  expect(found.map(({ name }) => name)).toEqual(Array.from({ length: count }, () => 'told'));
});
