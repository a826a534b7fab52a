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
  ['one that another account was to send as no receipt came in time', silent()],
  [
    'one whose first account reported as soon as the time was over',
    silent({ status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'], receipts: 1 }, [
      receipt('delivered', START + 60 + TIMEOUT_MS),
    ]),
  ],
  [
    'one whose first account reported after that',
    silent({ status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'], receipts: 1 }, [
      receipt('delivered', MOVED_AT + 500),
    ]),
  ],
  [
    'one that was said to be on its way, and nothing else',
    silent({ receipts: 1 }, [receipt('sent', START + 200)]),
  ],
  [
    'one whose first account reported before the second one was called',
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
    'one that came back, as the other account refused it',
    {
      ...silent({ outcomes: ['accepted', 'rejected_permanent'], events: ['sent', 'silent', 'sent'] }),
      calls: [call(), call({ at: MOVED_AT + 80, account: 'a2', answer: 'unavailable' })],
    },
  ],
  [
    'one that was heard of in time, and stayed',
    {
      waits: WAITS,
      receipts: [receipt('delivered', START + 200)],
      records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
    },
  ],
  [
    'one that was not to be sent again, and stayed',
    { waits: WAITS, records: [record({ guarantee: 'at_most_once' })] },
  ],
  [
    'one whose account was named, and that stayed',
    {
      waits: WAITS,
      acknowledgements: [promise({ pinned: 'a1' })],
      records: [record({ isPinned: true })],
    },
  ],
  [
    'one that was not silent for long enough before the routes changed',
    { waits: { ...WAITS, decidedBy: START + TIMEOUT_MS }, records: [record()] },
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
  [
    'another account was called for, and the record tells of no move',
    { ...silent({ silences: [], events: ['sent', 'sent'] }), waits: null },
    ['failover'],
  ],
  [
    'another account was called for before it moved',
    { ...silent(), calls: [call(), call({ at: MOVED_AT - 80, account: 'a2' })] },
    ['failover', 'silence'],
  ],
  [
    'another account was called for than the one that was named',
    { acknowledgements: [promise({ pinned: 'a2' })] },
    ['failover'],
  ],
  ['nothing was heard of, and that stayed where it was', { waits: WAITS, records: [record()] }, ['silence']],
  [
    'went on for want of a receipt, is delivered by the first account, and says otherwise',
    silent({ receipts: 1 }, [receipt('delivered', MOVED_AT + 500)]),
    ['receipts'],
  ],
  [
    'went on for want of a receipt before it was sent',
    silent({ events: ['silent', 'sent', 'sent'] }),
    ['moves'],
  ],
  [
    'went on for want of a receipt, and is shown without that',
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
    { shown: new Map([['m1', { status: 'queued', attemptCount: 0, duplicateRisk: false, route: [] }]]) },
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
  ['though its route names no time', { ...silent(), waits: null }, 'its route has no time'],
  [
    'though one call at most was promised',
    silent({ guarantee: 'at_most_once' }),
    'was to be called once at most',
  ],
  ['though its account was named', silent({ isPinned: true }), 'from the account that was named'],
  ['without duplicateRisk', silent({ duplicateRisk: false }), 'without duplicateRisk'],
  [
    'though it had not been accepted',
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
    'after two calls that may have been taken',
    { ...silent(), calls: [call({ at: START + 45, answer: 'reset' }), ...silent().calls] },
    'after 2 calls that may have been taken',
  ],
  ['too early', silent({ silences: [early] }), 'it moved 9900 ms after it was accepted'],
  [
    'though a receipt had come in time',
    silent({ receipts: 1, status: 'delivered', events: ['sent', 'silent', 'sent', 'delivered'] }, [
      receipt('delivered', START + 60 + TIMEOUT_MS - 1),
    ]),
    'a1 had reported in time',
  ],
  [
    'and was sent by another account',
    silent({ tries: [...TRIES.slice(0, 1), elsewhere] }),
    'another account',
  ],
  [
    'to where it had been',
    silent({
      silences: [MOVE, { ...MOVE, from: 'a2', to: 'a1', at: MOVED_AT + 99 + TIMEOUT_MS }],
      events: ['sent', 'silent', 'sent', 'silent', 'sent'],
    }),
    'it moved back to a1',
  ],
])('a message that went on for want of a receipt %s is noticed', (_how, world, what) => {
  const details = foundIn(world).flatMap(({ name, detail }) =>
    name === 'silence' || name === 'heard' ? [detail] : [],
  );
  expect(details).toEqual([expect.stringContaining(what)]);
});

test('a run in which no message went on for want of a receipt proves nothing of it', () => {
  const heard = {
    receipts: [receipt('delivered', START + 200)],
    records: [record({ status: 'delivered', events: ['sent', 'delivered'], receipts: 1 })],
  };
  const decidedBy = START + 2 * TIMEOUT_MS + 10;
  expect(violationsOf({ ...heard, waits: { ...WAITS, decidedBy } })).toEqual(['silence']);
  expect(violationsOf({ ...heard, waits: { ...WAITS, decidedBy: decidedBy - 1 } })).toEqual([]);
  expect(violationsOf({ ...silent(), waits: { ...WAITS, decidedBy } })).toEqual([]);
});
