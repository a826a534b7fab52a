import { describe, expect, test } from 'vitest';
import { decideReceipts, type DueReceipt } from './decide-receipts.ts';

const DUE: DueReceipt = {
  id: 'r1',
  tenantId: 't1',
  provider: 'twilio',
  attempt: 1,
  receipt: 'delivered',
  temporary: false,
  failure: null,
  segment: null,
  engagement: null,
  providerStatus: 'delivered',
  verified: true,
  happenedMs: 1_000,
  reportKey: 'k1',
  calledIn: null,
  sentIn: null,
  waitedMs: 0,
  seq: 7,
  purgeOn: '2026-12-28',
  underWay: false,
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

test('a receipt changes its message, and is an event', () => {
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

test('receipts of one message are applied one after the other, and the message is stored once', () => {
  const decided = decideReceipts(
    due({ receipt: 'sent' }, { receipt: 'delivered' }, { receipt: 'undelivered' }),
  );
  expect(decided.messages).toMatchObject([{ status: 'delivered', lateBounce: true }]);
  expect(decided.events.map(({ type, applied }) => [type, applied])).toEqual([
    ['message.sent', false],
    ['message.delivered', true],
    ['message.undelivered', true],
  ]);
});

describe('a repetition', () => {
  test('within a batch or after it is no event', () => {
    const decided = decideReceipts(due({}, { reportKey: 'k0' }, { reportKey: 'x', repeated: true }));
    expect(decided.events).toHaveLength(1);
    expect(decided.done).toEqual(['r0', 'r1', 'r2']);
    expect(decided.results.map(({ result }) => result)).toEqual(['applied', 'repeated', 'repeated']);
  });

  test('is nothing that another message has', () => {
    expect(resultsOf(due({}, { reportKey: 'k0', seq: 8 }))).toEqual(['applied', 'applied']);
  });

  test('of a simulator counts each time', () => {
    expect(decideReceipts(due({ reportKey: null }, { reportKey: null })).events).toHaveLength(2);
  });
});

describe('a receipt waits', () => {
  test.each([
    [{ waitedMs: 0 }, 1_000],
    [{ waitedMs: 30_000 }, 30_000],
    [{ waitedMs: 20 * 3_600_000 }, 3_600_000],
  ])('for the record of the call that it overtook, longer each time: %o', (over, ms) => {
    const decided = decideReceipts(due({ underWay: true, status: null, ...over }));
    expect(decided).toMatchObject({ messages: [], events: [], done: [], waiting: [{ id: 'r0', ms }] });
  });

  test('for its message a day, and is given up then', () => {
    const unknown = { seq: null, purgeOn: null, status: null };
    expect(resultsOf(due({ ...unknown, waitedMs: 86_399_999 }))).toEqual(['waiting']);
    const decided = decideReceipts(due({ ...unknown, waitedMs: 86_400_000 }));
    expect(decided).toMatchObject({ events: [], done: ['r0'], results: [{ result: 'orphan' }] });
  });
});

test('a receipt of a message that waits for another call is an event and changes nothing', () => {
  expect(decideReceipts(due({ status: null }))).toMatchObject({
    messages: [],
    events: [{ type: 'message.delivered', applied: false }],
    results: [{ result: 'unapplied' }],
  });
});

test('what says nothing of the state is an event of its own kind', () => {
  const decided = decideReceipts(due({ receipt: null }, { receipt: null, engagement: 'opened' }));
  expect(decided.events.map(({ type, applied }) => [type, applied])).toEqual([
    ['message.receipt', false],
    ['message.engagement', true],
  ]);
});

test('the one receipt that tells how a message ended is known from those before and after it', () => {
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
