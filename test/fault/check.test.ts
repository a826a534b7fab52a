import { expect, test } from 'vitest';
import { createChecker, type CheckInput } from './check.ts';
import type { Acknowledgement, Cancellation, ProviderCall } from './ledger.ts';
import type { MessageRecord } from './records.ts';
import type { ViolationName } from './violations.ts';

const START = 1_750_000_000_000;
const TENANT = 'tenant';

const promise = (overrides: Partial<Acknowledgement> = {}): Acknowledgement => ({
  id: 'm1',
  tenantId: TENANT,
  key: 'k1',
  token: 't1',
  credential: 'c1',
  guarantee: 'at_least_once',
  sendAt: null,
  firstAskedAt: START,
  askedAt: START,
  at: START + 10,
  ...overrides,
});

const call = (overrides: Partial<ProviderCall> = {}): ProviderCall => ({
  token: 't1',
  worker: 'worker-1',
  account: 'a1',
  at: START + 50,
  answer: 'accepted',
  ...overrides,
});

const RECEIPTS = ['sent', 'delivered', 'delivered'].map((state) => ({ token: 't1', state, at: START + 200 }));

const record = (overrides: Partial<MessageRecord> = {}): MessageRecord => ({
  id: 'm1',
  tenantId: TENANT,
  token: 't1',
  status: 'sent',
  reason: null,
  isScheduled: false,
  isTimed: false,
  failure: null,
  duplicateRisk: false,
  guarantee: 'at_least_once',
  attempts: [1],
  outcomes: ['accepted'],
  begunAt: START + 40,
  events: ['sent'],
  receipts: 0,
  told: [0, -1],
  fed: [0, -1],
  ...overrides,
});

const cancel = (at: number | null = START + 100): Cancellation => ({ token: 't1', askedAt: START + 60, at });
const canceled = { status: 'canceled', attempts: [], outcomes: [], events: ['canceled'] } as const;

const suppressed = {
  status: 'suppressed',
  reason: 'manual',
  attempts: [],
  outcomes: [],
  begunAt: null,
  events: ['suppressed'],
};

type World = Partial<CheckInput> & { readonly records?: readonly MessageRecord[] };

function violationsOf({ records = [record()], ...input }: World): ViolationName[] {
  const checker = createChecker({
    acknowledgements: [promise()],
    cancels: [],
    suppressions: [],
    calls: [call()],
    receipts: [],
    limits: {
      daily: { tenantId: 'limited', max: 2 },
      days: 1,
      perMinute: { tenantId: 'slow', max: 2 },
    },
    feedHoles: [],
    miscounts: [],
    shown: new Map(),
    revocations: [],
    suspensions: [],
    ...input,
  });
  for (const one of records) checker.visit(one);
  return [...new Set(checker.conclude().violations.map(({ name }) => name))];
}

const twice = [call(), call({ at: START + 90, worker: 'worker-2' })];
const attempted = { attempts: [1, 2], outcomes: ['ambiguous', 'accepted'], events: ['deferred', 'sent'] };

test.each<[string, World]>([
  ['one that was promised, called once and recorded', {}],
  ['one that was stored, though its client never heard of it', { acknowledgements: [] }],
  [
    'one whose second answer was a replay of the first',
    { acknowledgements: [promise(), promise({ at: START + 500 })] },
  ],
  [
    'one called twice that says so',
    { calls: twice, records: [record({ ...attempted, duplicateRisk: true })] },
  ],
  [
    'one called again because its provider had refused it',
    {
      calls: [call({ answer: 'unavailable' }), call()],
      records: [record({ ...attempted, outcomes: ['rejected_transient', 'accepted'] })],
    },
  ],
  [
    'one nobody can tell about',
    {
      calls: [call({ answer: 'hang' })],
      records: [record({ status: 'unknown', outcomes: ['ambiguous'], events: ['unknown'] })],
    },
  ],
  [
    'one that its provider reported to be delivered',
    {
      receipts: RECEIPTS,
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 2 })],
    },
  ],
  [
    'one that nobody answered for, and that its provider reported to be delivered',
    {
      calls: [call({ answer: 'late' })],
      receipts: RECEIPTS,
      records: [
        record({
          status: 'delivered',
          outcomes: ['ambiguous'],
          events: ['unknown', 'delivered'],
          receipts: 2,
        }),
      ],
    },
  ],
  [
    'one whose receipts came while it waited for another call',
    {
      calls: twice,
      receipts: RECEIPTS,
      records: [record({ ...attempted, duplicateRisk: true, receipts: 2 })],
    },
  ],
  [
    'one that its provider wants later',
    {
      calls: [],
      records: [
        record({ status: 'deferred', isTimed: true, outcomes: ['rejected_transient'], events: ['deferred'] }),
      ],
    },
  ],
  [
    'one that was scheduled, held and released, and called at its instant',
    {
      acknowledgements: [promise({ sendAt: START + 50 })],
      records: [record({ isScheduled: true, events: ['held', 'released', 'queued', 'sent'] })],
    },
  ],
  ['one that was canceled before any call', { cancels: [cancel()], calls: [], records: [record(canceled)] }],
  [
    'one that was canceled, though its client never heard of it',
    { cancels: [cancel(null)], calls: [], records: [record(canceled)] },
  ],
  ['one that was not canceled, as its cancel was never heard of', { cancels: [cancel(null)] }],
  [
    'one whose recipient was suppressed in time',
    { suppressions: [cancel()], calls: [], records: [record(suppressed)] },
  ],
  [
    'one whose attempt had begun when its recipient was suppressed',
    {
      suppressions: [cancel(START + 45)],
      calls: [call({ at: START + 900 })],
    },
  ],
  [
    'one that another account sent after a refusal',
    {
      calls: [call({ answer: 'unavailable' }), call({ at: START + 90, account: 'a2' })],
      records: [
        record({
          attempts: [1, 2],
          outcomes: ['rejected_transient', 'accepted'],
          events: ['failed_over', 'sent'],
        }),
      ],
    },
  ],
  [
    'one that was canceled after a call without an answer, which came late',
    {
      cancels: [cancel()],
      calls: [call({ at: START + 150, answer: 'late' })],
      records: [
        record({ ...canceled, attempts: [1], outcomes: ['ambiguous'], events: ['deferred', 'canceled'] }),
      ],
    },
  ],
])('%s is as it should be', (_case, world) => {
  expect(violationsOf(world)).toEqual([]);
});

test.each<[string, World, ViolationName[]]>([
  ['was promised and is not stored', { records: [], calls: [] }, ['lost']],
  ['is canceled, and nobody wished so', { calls: [], records: [record(canceled)] }, ['lost']],
  ['was canceled and is called', { cancels: [cancel()], calls: [call({ at: START + 150 })] }, ['canceled']],
  [
    'was canceled and is called, though its record says nothing of it',
    {
      cancels: [cancel()],
      calls: [call({ at: START + 150 })],
      records: [record({ ...canceled, attempts: [1], outcomes: ['accepted'] })],
    },
    ['canceled'],
  ],
  [
    'was called before its instant',
    {
      acknowledgements: [promise({ sendAt: START + 51 })],
      records: [record({ isScheduled: true, events: ['queued', 'sent'] })],
    },
    ['instant'],
  ],
  ['was scheduled and sent without being queued', { records: [record({ isScheduled: true })] }, ['moves']],
  [
    'is scheduled for ever',
    {
      calls: [],
      records: [record({ isScheduled: true, status: 'scheduled', attempts: [], outcomes: [], events: [] })],
    },
    ['lost'],
  ],
  [
    'waits for ever',
    { calls: [], records: [record({ status: 'queued', attempts: [], outcomes: [], events: [] })] },
    ['lost'],
  ],
  [
    'failed',
    { calls: [], records: [record({ status: 'failed', outcomes: ['accepted'], events: ['failed'] })] },
    ['failed'],
  ],
  [
    'is attempted after its recipient was suppressed',
    { suppressions: [cancel(START + 20)], calls: [call()] },
    ['suppressed'],
  ],
  ['is suppressed, and nobody wished so', { calls: [], records: [record(suppressed)] }, ['lost']],
  [
    'another account was called for though the first one may have taken it',
    {
      calls: [call({ answer: 'reset' }), call({ at: START + 90, account: 'a2' })],
      records: [record({ ...attempted, duplicateRisk: true })],
    },
    ['failover'],
  ],
  ['was sent and never stored', { calls: [call(), call({ token: 't2' })] }, ['ghost']],
  ['was called twice without a word', { calls: twice, records: [record({ ...attempted })] }, ['duplicate']],
  [
    'was called twice although once at most was promised',
    { calls: twice, records: [record({ ...attempted, guarantee: 'at_most_once', duplicateRisk: true })] },
    ['at_most_once'],
  ],
  [
    'was called more often than attempted',
    { calls: twice, records: [record({ duplicateRisk: true })] },
    ['unrecorded'],
  ],
  [
    'is shown as what it is not',
    { shown: new Map([['m1', { status: 'queued', attemptCount: 0, duplicateRisk: false }]]) },
    ['answers'],
  ],
  ['is sent and nobody was called', { calls: [] }, ['answers']],
  ['has two ids for one key', { acknowledgements: [promise(), promise({ id: 'm2' })] }, ['idempotency']],
  ['is stored twice', { records: [record(), record({ id: 'm2' })] }, ['idempotency']],
  ['went back', { records: [record({ events: ['sent', 'deferred', 'sent'] })] }, ['moves']],
  [
    'says another state than its last event',
    { records: [record({ events: ['sent', 'delivered'] })] },
    ['moves'],
  ],
  [
    'has forgotten a receipt',
    {
      receipts: RECEIPTS,
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
    },
    ['receipts'],
  ],
  [
    'is not delivered though it was reported to be',
    { receipts: RECEIPTS, records: [record({ receipts: 2 })] },
    ['receipts'],
  ],
  ['has a gap in its attempts', { records: [record({ attempts: [2] })] }, ['attempts']],
  ['has an attempt that nobody closed', { records: [record({ outcomes: ['started'] })] }, ['attempts']],
])('a message that %s is noticed', (_case, world, expected) => {
  expect(violationsOf(world)).toEqual(expect.arrayContaining(expected));
});

const of = (n: number, overrides: Partial<Acknowledgement> = {}) =>
  Array.from({ length: n }, (_, i) => promise({ id: `m${i}`, token: `t${i}`, ...overrides }));
const recordsOf = (n: number, overrides: Partial<MessageRecord> = {}) =>
  Array.from({ length: n }, (_, i) => record({ id: `m${i}`, token: `t${i}`, ...overrides }));
const callsOf = (n: number) => Array.from({ length: n }, (_, i) => call({ token: `t${i}` }));

test('a daily limit holds for what is stored, for each day', () => {
  const world = (n: number, days: number): World => ({
    acknowledgements: of(n, { tenantId: 'limited' }),
    calls: callsOf(n),
    records: recordsOf(n, { tenantId: 'limited' }),
    limits: {
      daily: { tenantId: 'limited', max: 2 },
      days,
      perMinute: { tenantId: 'slow', max: 2 },
    },
  });
  expect(violationsOf(world(2, 1))).toEqual([]);
  expect(violationsOf(world(3, 1))).toEqual(['quota']);
  expect(violationsOf(world(3, 2))).toEqual([]);
});

test('a limit a minute holds for what was certainly asked and answered within one', () => {
  const world = (at: number): World => ({
    acknowledgements: of(3, { tenantId: 'slow' }).map((one, i) => (i === 2 ? { ...one, at } : one)),
    calls: callsOf(3),
    records: recordsOf(3),
  });
  expect(violationsOf(world(START + 59_000))).toEqual(['rate']);
  expect(violationsOf(world(START + 61_000))).toEqual([]);
});

test('a key is refused five seconds after it was revoked', () => {
  const asked = (firstAskedAt: number): World => ({
    acknowledgements: [promise({ firstAskedAt, at: firstAskedAt + 10 })],
    revocations: [{ credential: 'c1', at: START }],
  });
  expect(violationsOf(asked(START + 5_000))).toEqual([]);
  expect(violationsOf(asked(START + 6_000))).toEqual(['revocation']);
});

test('a suspended tenant is neither taken from nor sent for', () => {
  const suspensions = [{ tenantId: TENANT, from: START, to: START + 20_000 }];
  const asked = (ms: number) => [promise({ firstAskedAt: START + ms, at: START + ms + 10 })];
  expect(violationsOf({ suspensions, acknowledgements: asked(4_000) })).toEqual([]);
  expect(violationsOf({ suspensions, acknowledgements: asked(8_000) })).toEqual(['suspension']);
  expect(violationsOf({ suspensions, calls: [call({ at: START + 9_000 })] })).toEqual(['suspension']);
});

test("each event of a message is in its tenant's feed once, in order, and no number is left out", () => {
  const fed = (...numbers: number[]) => violationsOf({ records: [record({ fed: numbers })] });
  expect(fed(0, -1)).toEqual([]);
  expect(fed(0)).toEqual(['feed']);
  expect(fed(0, -1, -1)).toEqual(['feed']);
  expect(fed(-1, 0)).toEqual(['feed']);
  expect(violationsOf({ feedHoles: [{ tenantId: TENANT, after: 7 }] })).toEqual(['feed']);
});

test('usage that is not what the messages say is told', () => {
  const group = {
    tenantId: TENANT,
    dimension: 'day',
    period: '2026-01-05',
    channel: 'sms',
    value: '',
    status: 'sent',
  };
  const miscount = { ...group, counted: [2, 2], stored: [1, 1] } as const;
  expect(violationsOf({ miscounts: [miscount] })).toEqual(['usage']);
});
