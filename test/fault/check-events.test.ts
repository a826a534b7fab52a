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
  ['each event delivered once', record(), both],
  ['an event delivered twice', record(), [...both, event(1, { at: 900 })]],
  [
    'an event rejected at first and accepted later',
    record(),
    [event(1, { isTaken: false, at: 50 }), ...both],
  ],
  ['a later event of another message first', record(), [event(1, { at: 900 }), event(2, { messageId: 'n' })]],
  ['an event that is still due', record({ due: [2] }), [event(1)]],
  [
    'a later event first at an unordered endpoint',
    record({ ordered: false }),
    [event(2), event(1, { at: 900 })],
  ],
])('finds no violation: %s', (_, endpoint, received) => {
  expect(namesOf(endpoint, received)).toEqual([]);
});

test.each<[string, string, EndpointRecord, ReceivedEvent[]]>([
  ['a hole in the sequence numbers', 'endpoint_feed', record({ holes: 1 }), both],
  ['a feed without events', 'endpoint_feed', record({ lastSeq: 0 }), []],
  ['an event that is missing in the feed', 'endpoint_feed', record({ missing: 1 }), both],
  ['an event that is twice in the feed', 'endpoint_feed', record({ surplus: 1 }), both],
  [
    'an event with a forged signature',
    'signatures',
    record(),
    [...both, event(2, { fault: 'forged', isTaken: false, at: 900 })],
  ],
  ['an event that was never delivered', 'told', record(), [event(1)]],
  ['an event that the endpoint never accepted', 'told', record(), [event(1), event(2, { isTaken: false })]],
  ['an event beyond the end of the feed', 'told', record(), [...both, event(3)]],
  ['two events with one sequence number', 'told', record(), [...both, event(2, { id: 'other', at: 900 })]],
  [
    'one event with two sequence numbers',
    'told',
    record({ lastSeq: 3 }),
    [...both, event(3, { id: 'event-2' })],
  ],
  ['an event before an earlier one of its message', 'ordered', record(), [event(2), event(1, { at: 900 })]],
  [
    'an event before the endpoint accepted the earlier one',
    'ordered',
    record(),
    [event(1, { isTaken: false }), event(2), event(1, { at: 900 })],
  ],
])('finds a violation: %s', (_, name, endpoint, received) => {
  expect(namesOf(endpoint, received)).toEqual([name]);
});

const failover = { why: 'receipt_timeout', from: 'i1', to: 'i2' };
const moved = (from: string | null = 'i1', to = 'i2') => event(2, { failover: { ...failover, from, to } });
const stored = { id: 'm', silences: [{ from: 'a1', to: 'a2', fromId: 'i1', toId: 'i2', at: 0 }] };

test.each<[string, EndpointRecord, ReceivedEvent[], (typeof stored)[], number]>([
  ['matches the record', record(), [event(1), moved()], [stored], 0],
  ['delivered twice', record(), [moved(), moved()], [stored], 0],
  [
    'of a failover after a refusal, without a record',
    record(),
    [event(2, { failover: { ...failover, why: 'refused' } })],
    [],
    0,
  ],
  ['still due', record({ due: [2] }), [event(1)], [stored], 0],
  ['not delivered', record(), both, [stored], 1],
  ['delivered and not accepted', record(), [{ ...moved(), isTaken: false }], [stored], 1],
  ['without a record', record(), [moved()], [], 1],
  ['with another source account than the record', record(), [moved('i3')], [stored], 2],
  ['with another target account than the record', record(), [moved('i1', 'i3')], [stored], 2],
])('checks the event of a receipt timeout failover: %s', (_, endpoint, received, records, count) => {
  const found = checkSilentEvents(endpoint, received, records);
  expect(found.map(({ name }) => name)).toEqual(Array.from({ length: count }, () => 'told'));
});
