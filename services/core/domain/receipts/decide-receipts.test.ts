import { describe, expect, test } from 'vitest';
import { decideReceipts } from './decide-receipts.ts';
import type { DueReceipt } from './due-receipt.ts';

const DUE: DueReceipt = {
  id: 'r1',
  tenantId: 't1',
  accountId: 'a1',
  provider: 'twilio',
  attempt: 1,
  receipt: 'delivered',
  temporary: false,
  failure: null,
  segment: null,
  engagement: null,
  providerStatus: 'delivered',
  providerMessageId: 'SM1',
  awaitMs: null,
  verified: true,
  asked: false,
  happenedMs: 1_000,
  reportKey: 'k1',
  calledIn: null,
  sentIn: null,
  waitedMs: 0,
  waiting: false,
  waitingOfAccount: null,
  seq: 7,
  purgeOn: '2026-12-28',
  underWay: false,
  doubtful: false,
  repeated: false,
  status: 'sent',
  final: false,
  lastAttempt: 1,
  failureShown: null,
  segments: 1,
  segmentStates: null,
  partial: false,
  lateBounce: false,
  engaged: null,
};
const due = (...receipts: Partial<DueReceipt>[]): DueReceipt[] =>
  receipts.map((over, n) => ({ ...DUE, id: `r${n}`, reportKey: `k${n}`, ...over }));
const resultsOf = (receipts: readonly DueReceipt[]) =>
  decideReceipts(receipts).results.map(({ result }) => result);

test('a receipt updates its message and adds an event', () => {
  expect(decideReceipts(due({}))).toMatchObject({
    messages: [{ seq: 7, purgeOn: '2026-12-28', status: 'delivered', final: true }],
    events: [
      {
        type: 'message.delivered',
        applied: true,
        details: { attempt: 1, providerStatus: 'delivered', verified: true },
        reportKey: 'k0',
      },
    ],
    waiting: [],
    done: ['r0'],
    results: [{ provider: 'twilio', result: 'applied' }],
  });
});

test('an event has those details that its receipt names', () => {
  const detailsOf = (over: Partial<DueReceipt>) => decideReceipts(due(over)).events[0]?.details;
  expect(detailsOf({})).toEqual({ attempt: 1, providerStatus: 'delivered', verified: true });
  expect(detailsOf({ attempt: null, providerStatus: null, verified: false, segment: 's' })).toEqual({
    verified: false,
    segment: 's',
  });
});

test('reports with different ids of the vendor are about different copies of a message', () => {
  const unplaced = { attempt: null, lastAttempt: 2 } as const;
  const bounce = { ...unplaced, receipt: 'undelivered' } as const;
  const [other, same] = ['SM2', 'SM1'].map(
    (providerMessageId) => decideReceipts(due(unplaced, { ...bounce, providerMessageId })).messages,
  );
  expect(other).toMatchObject([{ status: 'delivered', lateBounce: false }]);
  expect(same).toMatchObject([{ status: 'delivered', lateBounce: true }]);
});

test('an engagement leaves the end of a partial message as it is', () => {
  const partial = { status: 'undelivered', final: true, partial: true, segments: 2 } as const;
  expect(decideReceipts(due({ ...partial, receipt: null, engagement: 'opened' })).messages).toMatchObject([
    { status: 'undelivered', final: true, partial: true },
  ]);
});

test('receipts of one message are applied in order, and the message is stored once', () => {
  const decided = decideReceipts(
    due({ receipt: 'sent' }, { receipt: 'delivered' }, { receipt: 'undelivered' }),
  );
  expect(decided.messages).toMatchObject([{ status: 'delivered', lateBounce: true }]);
  expect(decided.events.map(({ type, applied }) => [type, applied])).toEqual([
    ['message.receipt', false],
    ['message.delivered', true],
    ['message.receipt', true],
  ]);
});

describe('a repeated receipt', () => {
  test('adds no event, within a batch or after it', () => {
    const decided = decideReceipts(due({}, { reportKey: 'k0' }, { reportKey: 'x', repeated: true }));
    expect(decided.events).toHaveLength(1);
    expect(decided.done).toEqual(['r0', 'r1', 'r2']);
    expect(decided.results.map(({ result }) => result)).toEqual(['applied', 'repeated', 'repeated']);
  });

  test('is recognized only for the same message', () => {
    expect(resultsOf(due({}, { reportKey: 'k0', seq: 8 }))).toEqual(['applied', 'applied']);
  });

  test('of a simulator adds an event each time', () => {
    expect(decideReceipts(due({ reportKey: null }, { reportKey: null })).events).toHaveLength(2);
  });
});

describe('a receipt waits', () => {
  test.each([
    [{ waitedMs: 0 }, 1_000],
    [{ waitedMs: 30_000 }, 30_000],
    [{ waitedMs: 20 * 3_600_000 }, 3_600_000],
  ])('for the record of a call under way, longer each time: %o', (over, ms) => {
    const decided = decideReceipts(due({ underWay: true, status: null, ...over }));
    expect(decided).toMatchObject({ messages: [], events: [], done: [], waiting: [{ id: 'r0', ms }] });
  });

  test('for an unknown message up to a day, and is then an orphan', () => {
    const unknown = { seq: null, purgeOn: null, status: null };
    expect(resultsOf(due({ ...unknown, waitedMs: 86_399_999 }))).toEqual(['waiting']);
    const decided = decideReceipts(due({ ...unknown, waitedMs: 86_400_000 }));
    expect(decided).toMatchObject({ events: [], done: ['r0'], results: [{ result: 'orphan' }] });
  });
});

describe('a receipt for a message that waits for another call', () => {
  const WAITS = {
    status: 'deferred',
    final: null,
    partial: null,
    lateBounce: null,
    doubtful: true,
    lastAttempt: 2,
    attempt: 2,
  } as const;
  const VIA = { accountId: 'a1', provider: 'twilio', providerMessageId: 'SM1' };

  test.each(['queued', 'deferred', 'held'] as const)(
    'and is %s ends the message at once if it reports a delivery',
    (status) => {
      expect(decideReceipts(due({ ...WAITS, status }))).toMatchObject({
        messages: [{ status: 'delivered', final: true, wasWaiting: true, via: VIA, awaitMs: null }],
        events: [
          { type: 'message.sent', applied: true, reportKey: 'k0' },
          { type: 'message.delivered', applied: true, reportKey: null },
        ],
        waiting: [],
        done: ['r0'],
        results: [{ result: 'applied', isEnd: true }],
      });
    },
  );

  test.each([
    ['a delivery by an earlier call', { attempt: 1 }, 'delivered'],
    ['a delivery without an attempt', { attempt: null }, 'delivered'],
    ['a permanent failure', { receipt: 'undelivered' }, 'undelivered'],
    ['an acceptance after an ambiguous call', { receipt: 'sent' }, 'sent'],
    ['a delivery by a refused call', { doubtful: false }, 'delivered'],
  ] as const)('is applied: %s', (_, over, status) => {
    expect(decideReceipts(due({ ...WAITS, ...over }))).toMatchObject({
      messages: [{ status, wasWaiting: true }],
    });
  });

  test.each([
    ['a temporary failure', { receipt: 'undelivered', temporary: true }],
    ['a failure of an earlier call', { receipt: 'undelivered', attempt: 1 }],
    ['an acceptance if every call was answered', { receipt: 'sent', doubtful: false }],
    ['an engagement', { receipt: null, engagement: 'opened' }],
    ['any receipt during a call', { status: 'sending', underWay: true, attempt: 1 }],
    ['a delivery before the first call', { status: 'scheduled' }],
  ] as const)('waits with the message: %s', (_, over) => {
    expect(decideReceipts(due({ ...WAITS, ...over }))).toMatchObject({
      messages: [],
      events: [],
      done: [],
      waiting: [{ id: 'r0' }],
    });
  });

  test('does not wait without a state or an engagement', () => {
    expect(resultsOf(due({ ...WAITS, receipt: null }))).toEqual(['unapplied']);
  });

  test('is applied with the others of its batch, and a next receipt is awaited if one can come', () => {
    const sent = { ...WAITS, receipt: 'sent' } as const;
    const [once] = decideReceipts(due(sent, { ...WAITS, receipt: null, engagement: 'opened' })).messages;
    expect(once).toMatchObject({
      status: 'sent',
      partial: false,
      lateBounce: false,
      wasWaiting: true,
      awaitMs: 72 * 3_600_000,
      engagement: { opened: 1_000 },
    });
    const [both] = decideReceipts(due(sent, { ...WAITS, providerMessageId: null })).messages;
    expect(both).toMatchObject({ status: 'delivered', wasWaiting: true, via: VIA, awaitMs: null });
  });
});

describe('an unknown message that is reported as sent', () => {
  const UNKNOWN = { status: 'unknown', receipt: 'sent' } as const;

  test('waits for its next receipt, also if the report is repeated', () => {
    const [message] = decideReceipts(due(UNKNOWN, UNKNOWN)).messages;
    expect(message).toMatchObject({
      status: 'sent',
      final: false,
      wasWaiting: false,
      awaitMs: 72 * 3_600_000,
    });
  });

  test('by a late answer of its call waits for the awaitMs of that answer', () => {
    const late = { ...UNKNOWN, accountId: null, providerMessageId: null };
    const messageOf = (awaitMs: number | null) => decideReceipts(due({ ...late, awaitMs })).messages[0];
    expect(messageOf(3_600_000)).toMatchObject({
      status: 'sent',
      final: false,
      via: null,
      awaitMs: 3_600_000,
    });
    expect(messageOf(null)).toMatchObject({ status: 'sent', final: true, awaitMs: null });
  });
});

test('a receipt with two events has its report key on the first one only', () => {
  const decided = decideReceipts(due({ engagement: 'read' }));
  expect(decided.events.map(({ type, reportKey }) => [type, reportKey])).toEqual([
    ['message.delivered', 'k0'],
    ['message.engagement', null],
  ]);
});

test('a receipt without a state is a message.receipt or message.engagement event', () => {
  const decided = decideReceipts(due({ receipt: null }, { receipt: null, engagement: 'opened' }));
  expect(decided.events.map(({ type, applied }) => [type, applied])).toEqual([
    ['message.receipt', false],
    ['message.engagement', true],
  ]);
});

test('only the receipt that ends a message is marked as its end', () => {
  const endsOf = (...receipts: Partial<DueReceipt>[]) =>
    decideReceipts(due(...receipts)).results.map(({ isEnd }) => isEnd);
  expect(
    endsOf({ status: 'unknown', receipt: 'sent' }, { receipt: 'delivered' }, { receipt: 'undelivered' }),
  ).toEqual([false, true, false]);
  expect(endsOf({ receipt: 'undelivered' }, { receipt: 'delivered' })).toEqual([true, false]);
  expect(endsOf({ status: 'delivered', final: true })).toEqual([false]);
  expect(endsOf({ seq: null, purgeOn: null, status: null })).toEqual([false]);
  expect(endsOf({ seq: 7 }, { seq: 8 })).toEqual([true, true]);
});

describe('the limit of waiting receipts per account', () => {
  const waits = { seq: null, purgeOn: null, status: null } as const;
  const minute = 60_000;

  test.each<[string, Partial<DueReceipt>, string]>([
    ['below the limit', { waitingOfAccount: 9_999 }, 'waiting'],
    ['at the limit', { waitingOfAccount: 10_000 }, 'full'],
    [
      'at the limit that waits already',
      { waitingOfAccount: 10_000, waiting: true, waitedMs: minute },
      'waiting',
    ],
    ['of a simulator', { waitingOfAccount: null, accountId: null }, 'waiting'],
    [
      'that has waited long, within half of the limit',
      { waitingOfAccount: 5_000, waiting: true, waitedMs: 11 * minute },
      'waiting',
    ],
    [
      'that has waited long, beyond half of the limit',
      { waitingOfAccount: 5_001, waiting: true, waitedMs: 11 * minute },
      'full',
    ],
  ])('is applied to a receipt %s', (_, over, result) => {
    for (const kind of [waits, { underWay: true }]) {
      const decided = decideReceipts(due({ ...over, ...kind }));
      expect(decided.results.map((one) => one.result)).toEqual([result]);
      expect(decided.done).toEqual(result === 'full' ? ['r0'] : []);
      expect(decided.refused).toEqual(
        result === 'full' ? [{ accountId: 'a1', reason: 'too_many_waiting' }] : [],
      );
    }
  });

  test('counts the receipts of one batch, separately for each account', () => {
    const one = { ...waits, waitingOfAccount: 9_999 };
    const other = { ...one, accountId: 'a2' };
    expect(resultsOf(due(one, one, other, one))).toEqual(['waiting', 'full', 'waiting', 'full']);
  });

  test('does not apply to a receipt whose message is found', () => {
    expect(resultsOf(due({ waitingOfAccount: 20_000 }))).toEqual(['applied']);
  });
});

test('waitedMs is the longest wait among receipts that were never deferred', () => {
  expect(
    decideReceipts(due({ waitedMs: 20 }, { waitedMs: 70 }, { waitedMs: 900, waiting: true })).waitedMs,
  ).toBe(70);
  expect(decideReceipts([]).waitedMs).toBe(0);
});

const BOUNCE = {
  receipt: 'undelivered',
  failure: { class: 'invalid_recipient', code: 'invalid_number' },
} as const;

const VAGUE = {
  receipt: 'undelivered',
  failure: { class: 'recipient_unavailable', code: 'bounced' },
} as const;

describe('a hard bounce suppresses its recipient', () => {
  const causesOf = (receipts: readonly DueReceipt[]) =>
    decideReceipts(receipts).suppress.map(({ cause, isHit }) => [cause, isHit]);

  test('in whatever order it and a less precise report of the same end arrive', () => {
    const ended = {
      status: 'undelivered',
      final: true,
      failureShown: VAGUE.failure,
      segmentStates: { 1: { '': 'undelivered' } },
    } as const;
    for (const receipts of [due(VAGUE, BOUNCE, BOUNCE), due(BOUNCE, VAGUE, BOUNCE)]) {
      expect(causesOf(receipts)).toEqual([['hard_bounce', true]]);
      expect(decideReceipts(receipts).messages).toMatchObject([{ failure: BOUNCE.failure, final: true }]);
    }
    expect(causesOf(due({ ...BOUNCE, ...ended }))).toEqual([['hard_bounce', true]]);
    expect(causesOf(due({ ...BOUNCE, ...ended, failureShown: BOUNCE.failure }))).toEqual([]);
  });

  test('also by a report on an earlier copy, once, without a change to what is shown of the last one', () => {
    const ended = {
      status: 'undelivered',
      final: true,
      lastAttempt: 2,
      failureShown: VAGUE.failure,
    } as const;
    const segmentStates = { 1: { '': 'undelivered' }, 2: { '': 'undelivered' } } as const;
    const bounce = { ...BOUNCE, ...ended, segmentStates, attempt: 1 };
    expect(causesOf(due(bounce, bounce))).toEqual([['hard_bounce', true]]);
    expect(decideReceipts(due(bounce)).messages).toMatchObject([
      { failure: VAGUE.failure, copies: { 1: { '': 'hard' }, 2: { '': 'undelivered' } } },
    ]);
    const [temporary, delivered] = [
      { ...bounce, temporary: true },
      { ...bounce, receipt: 'delivered' },
    ] as const;
    expect(causesOf(due(temporary))).toEqual([]);
    expect(decideReceipts(due(temporary)).messages).toEqual([]);
    expect(decideReceipts(due(delivered)).messages).toEqual([]);
  });

  test('also of an unknown message whose last call was refused for the same reason', () => {
    const unknown = { status: 'unknown', failureShown: BOUNCE.failure } as const;
    expect(causesOf(due({ ...BOUNCE, ...unknown }))).toEqual([['hard_bounce', true]]);
  });

  test('also if a less precise report of a bounce after the delivery came before', () => {
    const bounced = { status: 'delivered', final: true, lateBounce: true } as const;
    expect(causesOf(due({ ...BOUNCE, ...bounced }))).toEqual([['hard_bounce', false]]);
  });

  test('but not if it is about a message that was never sent, or repeats an earlier report', () => {
    expect(causesOf(due({ ...BOUNCE, status: 'failed', final: true }))).toEqual([]);
    expect(causesOf(due({ ...BOUNCE, repeated: true }))).toEqual([]);
  });
});

describe('an opt-out suppresses its recipient', () => {
  const OPT_OUT = {
    receipt: 'undelivered',
    failure: { class: 'recipient_unavailable', code: 'recipient_opted_out' },
  } as const;
  const causesOf = (receipts: readonly DueReceipt[]) =>
    decideReceipts(receipts).suppress.map(({ cause }) => cause);

  test('in whatever order it and a less precise report of the same end arrive', () => {
    for (const receipts of [due(VAGUE, OPT_OUT, OPT_OUT), due(OPT_OUT, VAGUE, OPT_OUT)]) {
      expect(causesOf(receipts)).toEqual(['opt_out']);
      expect(decideReceipts(receipts).messages).toMatchObject([{ failure: OPT_OUT.failure, final: true }]);
    }
  });

  test('beside a hard bounce, which stays the failure shown', () => {
    for (const receipts of [due(BOUNCE, OPT_OUT), due(OPT_OUT, BOUNCE)]) {
      expect(causesOf(receipts).toSorted()).toEqual(['hard_bounce', 'opt_out']);
      expect(decideReceipts(receipts).messages).toMatchObject([{ failure: BOUNCE.failure }]);
    }
  });

  test('without counting towards a brake, also after the delivery', () => {
    const hitsOf = (status: 'sent' | 'delivered') =>
      decideReceipts(due({ ...OPT_OUT, status })).suppress.map(({ isHit }) => isHit);
    expect([hitsOf('sent'), hitsOf('delivered')]).toEqual([[false], [false]]);
  });

  test('also by a report on an earlier copy', () => {
    const [first, last] = [
      { lastAttempt: 2, attempt: 1 },
      { lastAttempt: 2, attempt: 2 },
    ] as const;
    expect(causesOf(due({ ...VAGUE, ...first }, { ...OPT_OUT, ...first }))).toEqual(['opt_out']);
    const reports = due({ ...VAGUE, ...first }, { ...VAGUE, ...last }, { ...OPT_OUT, ...first });
    expect(causesOf(reports)).toEqual(['opt_out']);
    expect(decideReceipts(reports).messages).toMatchObject([{ failure: VAGUE.failure }]);
  });

  test('but not if it is about a message that was never sent, or comes from a simulator', () => {
    expect(causesOf(due({ ...OPT_OUT, status: 'failed', final: true }))).toEqual([]);
    expect(causesOf(due({ ...OPT_OUT, accountId: null }))).toEqual([]);
  });
});

describe('a message counts once towards a brake', () => {
  const hits = (receipts: readonly DueReceipt[]) =>
    decideReceipts(receipts).suppress.map(({ isHit }) => isHit);

  test('however many of its segments bounce, in one call or in several', () => {
    const parts = ['a', 'b', 'c'].map((segment) => ({ ...BOUNCE, segments: 3, segment }));
    expect(hits(due(...parts))).toEqual([true, false, false]);
    const segmentStates = { 1: { a: 'undelivered' } } as const;
    expect(hits(due({ ...BOUNCE, segments: 3, segment: 'b', segmentStates }))).toEqual([false]);
  });

  describe('with hard bounces of its copies:', () => {
    const twice = { lastAttempt: 2 } as const;
    const [hard, soft] = [
      { ...BOUNCE, ...twice },
      { ...VAGUE, ...twice },
    ];
    test.each([
      ['of the last copy, after another failure of the first', [soft, { ...hard, attempt: 2 }], [true]],
      ['of both', [hard, { ...hard, attempt: 2 }], [true, false]],
      ['of both, the last one first', [{ ...hard, attempt: 2 }, hard], [true, false]],
      ['of the first copy, before another failure of the last', [hard, { ...soft, attempt: 2 }], [true]],
      ['of the first copy, after another failure of the last', [{ ...soft, attempt: 2 }, hard], [true]],
      [
        'of the last copy, after another failure of the first and a less precise report',
        [soft, { ...soft, attempt: 2 }, { ...hard, attempt: 2 }],
        [true],
      ],
      [
        'of the first copy, after a less precise report on it and before another failure of the last',
        [soft, hard, { ...soft, attempt: 2 }, { ...hard, attempt: 2 }],
        [true, false],
      ],
      [
        'of the first copy, after less precise reports on both',
        [soft, { ...soft, attempt: 2 }, hard, { ...hard, attempt: 2 }],
        [true, false],
      ],
      [
        'of both, with a less precise report between',
        [hard, { ...soft, attempt: 2 }, { ...hard, attempt: 2 }],
        [true, false],
      ],
    ] as const)('%s', (_, reports, expected) => {
      expect(hits(due(...reports))).toEqual(expected);
      // Each report in a batch of its own.
      let known: Partial<DueReceipt> = {};
      const apart = reports.flatMap((one) => {
        const decided = decideReceipts(due({ ...one, ...known }));
        const [stored] = decided.messages;
        if (stored !== undefined) {
          const { status, final, failure: failureShown, copies: segmentStates, partial } = stored;
          known = { status, final, failureShown, segmentStates, partial };
        }
        return decided.suppress.map(({ isHit }) => isHit);
      });
      expect(apart).toEqual(expected);
    });
  });

  test('with a hard bounce of one segment, before or after another failure of another segment', () => {
    const [hard, soft] = [
      { ...BOUNCE, segments: 2, segment: 'a' },
      { ...VAGUE, segments: 2, segment: 'b' },
    ];
    for (const reports of [due(hard, soft), due(soft, hard)]) {
      expect(hits(reports)).toEqual([true]);
      expect(decideReceipts(reports).messages).toMatchObject([{ failure: BOUNCE.failure }]);
    }
  });

  test('with a hard bounce, also with one after its delivery', () => {
    expect(hits(due(BOUNCE))).toEqual([true]);
    expect(hits(due({ ...BOUNCE, status: 'delivered', final: true }))).toEqual([true]);
  });

  test('however many complaints are reported, in any order', () => {
    const complaint = { receipt: null, engagement: 'complained' } as const;
    const [later, earlier] = [
      { ...complaint, happenedMs: 2_000 },
      { ...complaint, happenedMs: 1_000 },
    ];
    expect(hits(due(later, earlier))).toEqual([true, false]);
    expect(hits(due({ ...earlier, engaged: { complained: 2_000 } }))).toEqual([false]);
    expect(hits(due({ ...later, engaged: { complained: 1_000 } }))).toEqual([]);
  });
});
