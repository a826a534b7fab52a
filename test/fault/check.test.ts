import { expect, test } from 'vitest';
import { createChecker, type CheckInput } from './check.ts';
import type { Acknowledgement, Cancellation, ProviderCall, TakenReceipt } from './ledger.ts';
import type { MessageRecord } from './records.ts';
import type { Violation, ViolationName } from './violations.ts';

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
  pinned: null,
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

const receipt = (state: string, at: number, account = 'a1'): TakenReceipt => ({
  token: 't1',
  account,
  state,
  at,
});

const RECEIPTS = ['sent', 'delivered', 'delivered'].map((state) => receipt(state, START + 200));

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
  isPinned: false,
  attempts: [1],
  outcomes: ['accepted'],
  tries: [{ account: 'a1', startedAt: START + 40, endedAt: START + 60 }],
  begunAt: START + 40,
  events: ['sent'],
  receipts: 0,
  told: [0, -1],
  fed: [0, -1],
  silences: [],
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

function violationsOf(world: World): ViolationName[] {
  return [...new Set(foundIn(world).map(({ name }) => name))];
}

function foundIn({ records = [record()], ...input }: World): readonly Violation[] {
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
    waits: null,
    feedHoles: [],
    miscounts: [],
    shown: new Map(),
    revocations: [],
    suspensions: [],
    ...input,
  });
  for (const one of records) checker.visit(one);
  return checker.conclude().violations;
}

const twice = [call(), call({ at: START + 90, worker: 'worker-2' })];
const attempted = { attempts: [1, 2], outcomes: ['ambiguous', 'accepted'], events: ['deferred', 'sent'] };

const TIMEOUT_MS = 10_000;
const MOVED_AT = START + 60 + TIMEOUT_MS + 400;
const WAITS = { tenantIds: new Set([TENANT]), timeoutMs: TIMEOUT_MS, decidedBy: START + 19_000 };
const TRIES = [
  { account: 'a1', startedAt: START + 40, endedAt: START + 60 },
  { account: 'a2', startedAt: MOVED_AT + 70, endedAt: MOVED_AT + 99 },
];
const MOVE = { from: 'a1', to: 'a2', fromId: 'i1', toId: 'i2', at: MOVED_AT };

/** Builds a message that failed over after a receipt timeout. */
function silent(
  overrides: Partial<MessageRecord> = {},
  receipts: readonly TakenReceipt[] = [],
): World & { readonly calls: readonly ProviderCall[] } {
  const one = record({
    duplicateRisk: true,
    attempts: [1, 2],
    outcomes: ['accepted', 'accepted'],
    tries: TRIES,
    silences: [MOVE],
    events: ['sent', 'silent', 'sent'],
    ...overrides,
  });
  return {
    waits: WAITS,
    receipts,
    calls: [call(), call({ at: MOVED_AT + 80, account: 'a2' })],
    records: [one],
  };
}

test.each<[string, World]>([
  ['a message acknowledged, called once and recorded', {}],
  ['a stored message without an acknowledgement', { acknowledgements: [] }],
  [
    'a message with an idempotent replay of its acknowledgement',
    { acknowledgements: [promise(), promise({ at: START + 500 })] },
  ],
  [
    'a message called twice with duplicateRisk',
    { calls: twice, records: [record({ ...attempted, duplicateRisk: true })] },
  ],
  [
    'a message retried after a transient refusal',
    {
      calls: [call({ answer: 'unavailable' }), call()],
      records: [record({ ...attempted, outcomes: ['rejected_transient', 'accepted'] })],
    },
  ],
  [
    'a message without an answer, with status unknown',
    {
      calls: [call({ answer: 'hang' })],
      records: [record({ status: 'unknown', outcomes: ['ambiguous'], events: ['unknown'] })],
    },
  ],
  [
    'a message delivered according to its receipts',
    {
      receipts: RECEIPTS,
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 2 })],
    },
  ],
  [
    'a message without an answer, delivered according to its receipts',
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
    'a message whose receipts arrived while it waited for a retry',
    {
      calls: twice,
      receipts: RECEIPTS,
      records: [record({ ...attempted, duplicateRisk: true, receipts: 2 })],
    },
  ],
  [
    'a message that its provider asked to retry later',
    {
      calls: [],
      records: [
        record({ status: 'deferred', isTimed: true, outcomes: ['rejected_transient'], events: ['deferred'] }),
      ],
    },
  ],
  [
    'a scheduled message that was held, released, and called at its sendAt',
    {
      acknowledgements: [promise({ sendAt: START + 50 })],
      records: [record({ isScheduled: true, events: ['held', 'released', 'queued', 'sent'] })],
    },
  ],
  ['a message canceled before any call', { cancels: [cancel()], calls: [], records: [record(canceled)] }],
  [
    'a message canceled by a request without an answer',
    { cancels: [cancel(null)], calls: [], records: [record(canceled)] },
  ],
  ['a message sent in spite of a cancel request without an answer', { cancels: [cancel(null)] }],
  [
    'a message whose recipient was suppressed before the attempt',
    { suppressions: [cancel()], calls: [], records: [record(suppressed)] },
  ],
  [
    'a message whose attempt began before its recipient was suppressed',
    {
      suppressions: [cancel(START + 45)],
      calls: [call({ at: START + 900 })],
    },
  ],
  [
    'a message failed over to another account after a refusal',
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
  ['a message failed over to another account after a receipt timeout', silent()],
  [
    'a receipt timeout failover whose first account reports at the timeout',
    silent({ status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'], receipts: 1 }, [
      receipt('delivered', START + 60 + TIMEOUT_MS),
    ]),
  ],
  [
    'a receipt timeout failover whose first account reports after the failover',
    silent({ status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'], receipts: 1 }, [
      receipt('delivered', MOVED_AT + 500),
    ]),
  ],
  [
    'a receipt timeout failover with an interim receipt (sent) only',
    silent({ receipts: 1 }, [receipt('sent', START + 200)]),
  ],
  [
    'a receipt timeout failover whose first account reports before the second call',
    {
      ...silent(
        {
          status: 'delivered',
          attempts: [1],
          outcomes: ['accepted'],
          tries: TRIES.slice(0, 1),
          events: ['sent', 'silent', 'sent', 'delivered'],
          receipts: 1,
        },
        [receipt('delivered', MOVED_AT + 1)],
      ),
      calls: [call()],
    },
  ],
  [
    'a receipt timeout failover whose second account refuses the message',
    {
      ...silent({ outcomes: ['accepted', 'rejected_permanent'], events: ['sent', 'silent', 'sent'] }),
      calls: [call(), call({ at: MOVED_AT + 80, account: 'a2', answer: 'unavailable' })],
    },
  ],
  [
    'a message with a receipt in time and without a failover',
    {
      waits: WAITS,
      receipts: [receipt('delivered', START + 200)],
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
    },
  ],
  [
    'an at_most_once message without a receipt and without a failover',
    { waits: WAITS, records: [record({ guarantee: 'at_most_once' })] },
  ],
  [
    'a pinned message without a receipt and without a failover',
    {
      waits: WAITS,
      acknowledgements: [promise({ pinned: 'a1' })],
      records: [record({ isPinned: true })],
    },
  ],
  [
    'a message whose receipt timeout had not passed when the routes changed',
    { waits: { ...WAITS, decidedBy: START + TIMEOUT_MS }, records: [record()] },
  ],
  [
    'a message canceled after an attempt whose answer came too late',
    {
      cancels: [cancel()],
      calls: [call({ at: START + 150, answer: 'late' })],
      records: [
        record({ ...canceled, attempts: [1], outcomes: ['ambiguous'], events: ['deferred', 'canceled'] }),
      ],
    },
  ],
])('finds no violation: %s', (_case, world) => {
  expect(violationsOf(world)).toEqual([]);
});

test.each<[string, World, ViolationName[]]>([
  ['was acknowledged and is not stored', { records: [], calls: [] }, ['lost']],
  ['is canceled without a cancel request', { calls: [], records: [record(canceled)] }, ['lost']],
  [
    'is called after its cancel was confirmed',
    { cancels: [cancel()], calls: [call({ at: START + 150 })] },
    ['canceled'],
  ],
  [
    'is called after its cancel was confirmed, and has the status canceled',
    {
      cancels: [cancel()],
      calls: [call({ at: START + 150 })],
      records: [record({ ...canceled, attempts: [1], outcomes: ['accepted'] })],
    },
    ['canceled'],
  ],
  [
    'was called before its sendAt',
    {
      acknowledgements: [promise({ sendAt: START + 51 })],
      records: [record({ isScheduled: true, events: ['queued', 'sent'] })],
    },
    ['instant'],
  ],
  ['was scheduled and sent without being queued', { records: [record({ isScheduled: true })] }, ['moves']],
  [
    'stays scheduled forever',
    {
      calls: [],
      records: [record({ isScheduled: true, status: 'scheduled', attempts: [], outcomes: [], events: [] })],
    },
    ['lost'],
  ],
  [
    'stays queued forever',
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
  [
    'is suppressed without a suppression of its recipient',
    { calls: [], records: [record(suppressed)] },
    ['lost'],
  ],
  [
    'failed over although its first account may have accepted it',
    {
      calls: [call({ answer: 'reset' }), call({ at: START + 90, account: 'a2' })],
      records: [record({ ...attempted, duplicateRisk: true })],
    },
    ['failover'],
  ],
  [
    'was called with another account without a recorded failover',
    { ...silent({ silences: [], events: ['sent', 'sent'] }), waits: null },
    ['failover'],
  ],
  [
    'was called with another account before its failover',
    { ...silent(), calls: [call(), call({ at: MOVED_AT - 80, account: 'a2' })] },
    ['failover', 'silence'],
  ],
  [
    'was called with another account than the pinned one',
    { acknowledgements: [promise({ pinned: 'a2' })] },
    ['failover'],
  ],
  ['got no receipt in time and did not fail over', { waits: WAITS, records: [record()] }, ['silence']],
  [
    'failed over after a receipt timeout and ignores the receipt of its first account',
    silent({ receipts: 1 }, [receipt('delivered', MOVED_AT + 500)]),
    ['receipts'],
  ],
  [
    'failed over after a receipt timeout before it was sent',
    silent({ events: ['silent', 'sent', 'sent'] }),
    ['moves'],
  ],
  [
    'failed over after a receipt timeout that the api does not show',
    {
      ...silent(),
      shown: new Map([
        [
          'm1',
          {
            status: 'sent',
            attemptCount: 2,
            duplicateRisk: true,
            route: [{ providerId: 'i1', reason: 'in_route' }],
          },
        ],
      ]),
    },
    ['answers'],
  ],
  [
    'has two attempts open at once',
    {
      calls: twice,
      records: [
        record({
          ...attempted,
          duplicateRisk: true,
          tries: [
            { account: 'a1', startedAt: START + 40, endedAt: START + 90 },
            { account: 'a1', startedAt: START + 80, endedAt: START + 99 },
          ],
        }),
      ],
    },
    ['attempts'],
  ],
  ['was sent and never stored', { calls: [call(), call({ token: 't2' })] }, ['ghost']],
  [
    'was called twice without duplicateRisk',
    { calls: twice, records: [record({ ...attempted })] },
    ['duplicate'],
  ],
  [
    'was called twice although its guarantee is at_most_once',
    { calls: twice, records: [record({ ...attempted, guarantee: 'at_most_once', duplicateRisk: true })] },
    ['at_most_once'],
  ],
  [
    'has more calls than recorded attempts',
    { calls: twice, records: [record({ duplicateRisk: true })] },
    ['unrecorded'],
  ],
  [
    'is shown with another status than its record',
    { shown: new Map([['m1', { status: 'queued', attemptCount: 0, duplicateRisk: false, route: [] }]]) },
    ['answers'],
  ],
  ['is recorded as sent without a call', { calls: [] }, ['answers']],
  [
    'has two ids for one idempotency key',
    { acknowledgements: [promise(), promise({ id: 'm2' })] },
    ['idempotency'],
  ],
  ['is stored twice', { records: [record(), record({ id: 'm2' })] }, ['idempotency']],
  [
    'went back to an earlier status',
    { records: [record({ events: ['sent', 'deferred', 'sent'] })] },
    ['moves'],
  ],
  [
    'has another status than its last event',
    { records: [record({ events: ['sent', 'delivered'] })] },
    ['moves'],
  ],
  [
    'lacks a receipt',
    {
      receipts: RECEIPTS,
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
    },
    ['receipts'],
  ],
  [
    'is not delivered although its receipts report it',
    { receipts: RECEIPTS, records: [record({ receipts: 2 })] },
    ['receipts'],
  ],
  ['has a gap in its attempts', { records: [record({ attempts: [2] })] }, ['attempts']],
  ['has an attempt that was never closed', { records: [record({ outcomes: ['started'] })] }, ['attempts']],
])('reports a message that %s', (_case, world, expected) => {
  expect(violationsOf(world)).toEqual(expect.arrayContaining(expected));
});

const of = (n: number, overrides: Partial<Acknowledgement> = {}) =>
  Array.from({ length: n }, (_, i) => promise({ id: `m${i}`, token: `t${i}`, ...overrides }));
const recordsOf = (n: number, overrides: Partial<MessageRecord> = {}) =>
  Array.from({ length: n }, (_, i) => record({ id: `m${i}`, token: `t${i}`, ...overrides }));
const callsOf = (n: number) => Array.from({ length: n }, (_, i) => call({ token: `t${i}` }));

test('reports more stored messages than the daily limit allows', () => {
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

test('reports more messages accepted within one minute than the rate limit allows', () => {
  const world = (at: number): World => ({
    acknowledgements: of(3, { tenantId: 'slow' }).map((one, i) => (i === 2 ? { ...one, at } : one)),
    calls: callsOf(3),
    records: recordsOf(3),
  });
  expect(violationsOf(world(START + 59_000))).toEqual(['rate']);
  expect(violationsOf(world(START + 61_000))).toEqual([]);
});

test('reports a message accepted more than five seconds after its key was revoked', () => {
  const asked = (firstAskedAt: number): World => ({
    acknowledgements: [promise({ firstAskedAt, at: firstAskedAt + 10 })],
    revocations: [{ credential: 'c1', at: START }],
  });
  expect(violationsOf(asked(START + 5_000))).toEqual([]);
  expect(violationsOf(asked(START + 6_000))).toEqual(['revocation']);
});

test('reports a message accepted or called while its tenant is suspended', () => {
  const suspensions = [{ tenantId: TENANT, from: START, to: START + 20_000 }];
  const asked = (ms: number) => [promise({ firstAskedAt: START + ms, at: START + ms + 10 })];
  expect(violationsOf({ suspensions, acknowledgements: asked(4_000) })).toEqual([]);
  expect(violationsOf({ suspensions, acknowledgements: asked(8_000) })).toEqual(['suspension']);
  expect(violationsOf({ suspensions, calls: [call({ at: START + 9_000 })] })).toEqual(['suspension']);
});

test("reports missing, repeated and reordered events in the tenant's feed, and gaps in its numbers", () => {
  const fed = (...numbers: number[]) => violationsOf({ records: [record({ fed: numbers })] });
  expect(fed(0, -1)).toEqual([]);
  expect(fed(0)).toEqual(['feed']);
  expect(fed(0, -1, -1)).toEqual(['feed']);
  expect(fed(-1, 0)).toEqual(['feed']);
  expect(violationsOf({ feedHoles: [{ tenantId: TENANT, after: 7 }] })).toEqual(['feed']);
});

test('reports usage counts that differ from the stored messages', () => {
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

const early = { ...MOVE, at: MOVED_AT - 500 };
const elsewhere = { account: 'a1', startedAt: MOVED_AT + 70, endedAt: MOVED_AT + 99 };
const doubtful = {
  attempts: [1, 2, 3],
  outcomes: ['ambiguous', 'accepted', 'accepted'],
  tries: [{ account: 'a1', startedAt: START + 10, endedAt: START + 20 }, ...TRIES],
  events: ['deferred', 'sent', 'silent', 'sent'],
};

/** Each case breaks one of the conditions for a receipt timeout failover. */
test.each<[string, World, string]>([
  ['although its route has no receipt timeout', { ...silent(), waits: null }, 'its route has no time'],
  ['of an at_most_once message', silent({ guarantee: 'at_most_once' }), 'was to be called once at most'],
  ['of a pinned message', silent({ isPinned: true }), 'from the account that was named'],
  ['without duplicateRisk', silent({ duplicateRisk: false }), 'without duplicateRisk'],
  [
    'of a message that its account had refused',
    silent({ outcomes: ['rejected_transient', 'accepted'] }),
    'a1 had not accepted it',
  ],
  [
    'from an account that had not accepted it',
    silent({ silences: [{ ...MOVE, from: 'a3' }] }),
    'a3 had not accepted it',
  ],
  ['after an attempt without an answer', silent(doubtful), 'after an attempt without an answer'],
  [
    'after two calls that may have been accepted',
    { ...silent(), calls: [call({ at: START + 45, answer: 'reset' }), ...silent().calls] },
    'after 2 calls that may have been taken',
  ],
  ['before the timeout', silent({ silences: [early] }), 'it moved 9900 ms after it was accepted'],
  [
    'although a receipt arrived in time',
    silent({ receipts: 1, status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'] }, [
      receipt('delivered', START + 60 + TIMEOUT_MS - 1),
    ]),
    'a1 had reported in time',
  ],
  [
    'whose next attempt used another account',
    silent({ tries: [...TRIES.slice(0, 1), elsewhere] }),
    'another account',
  ],
  [
    'back to an earlier account',
    silent({
      silences: [MOVE, { ...MOVE, from: 'a2', to: 'a1', at: MOVED_AT + 99 + TIMEOUT_MS }],
      events: ['sent', 'silent', 'sent', 'silent', 'sent'],
    }),
    'it moved back to a1',
  ],
])('reports a receipt timeout failover %s', (_how, world, what) => {
  const details = foundIn(world).flatMap(({ name, detail }) =>
    name === 'silence' || name === 'heard' ? [detail] : [],
  );
  expect(details).toEqual([expect.stringContaining(what)]);
});

test('reports a run in which no message failed over after a receipt timeout', () => {
  const heard = {
    receipts: [receipt('delivered', START + 200)],
    records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
  };
  const decidedBy = START + 2 * TIMEOUT_MS + 10;
  expect(violationsOf({ ...heard, waits: { ...WAITS, decidedBy } })).toEqual(['silence']);
  expect(violationsOf({ ...heard, waits: { ...WAITS, decidedBy: decidedBy - 1 } })).toEqual([]);
  expect(violationsOf({ ...silent(), waits: { ...WAITS, decidedBy } })).toEqual([]);
});
