import { assert, boolean, constant, constantFrom, nat, property, record, shuffledSubarray } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import { canMove, MESSAGE_STATES } from './message-state.ts';

const SENT: ReportedMessage = {
  status: 'sent',
  final: false,
  attempt: 1,
  failure: null,
  segmentCount: 1,
  segments: {},
  partial: false,
  lateBounce: false,
  engagement: {},
};
const report = (over: Partial<Report>): Report => ({ attempt: 1, at: 1_000, ...over });
const after = (reports: readonly Report[], message = SENT): ReportedMessage =>
  reports.reduce((now, one) => applyReport(now, one).message, message);

describe('a report', () => {
  test('moves a message that was sent', () => {
    const failure = { class: 'recipient_unavailable', code: 'handset_unreachable' } as const;
    expect(after([report({ state: 'delivered' })])).toEqual({ ...SENT, status: 'delivered', final: true });
    expect(after([report({ state: 'undelivered', failure })])).toEqual({
      ...SENT,
      status: 'undelivered',
      final: true,
      failure,
    });
  });

  test('that says nothing new leaves the message as it was, and says so', () => {
    const message = { ...SENT, status: 'delivered', final: true } as const;
    for (const one of [report({ state: 'sent' }), report({ state: 'delivered' }), report({})])
      expect(applyReport(message, one)).toEqual({ applied: false, message });
  });

  test('of a delivery takes back a failure that was temporary, where it is of the same attempt', () => {
    const temporary = after([report({ state: 'undelivered', isTemporary: true })]);
    expect(temporary).toMatchObject({ status: 'undelivered', final: false });
    expect(after([report({ state: 'delivered' })], temporary).status).toBe('delivered');
    expect(after([report({ state: 'delivered', attempt: null })], temporary).status).toBe('delivered');
    expect(after([report({ state: 'delivered', attempt: 2 })], temporary).status).toBe('undelivered');
    const final = after([report({ state: 'undelivered' })]);
    expect(after([report({ state: 'delivered' })], final).status).toBe('undelivered');
  });

  test('of a bounce after the delivery is a fact of the record and no state', () => {
    const bounced = after([report({ state: 'delivered' }), report({ state: 'undelivered' })]);
    expect(bounced).toMatchObject({ status: 'delivered', final: true, lateBounce: true, failure: null });
    expect(applyReport(bounced, report({ state: 'undelivered' })).applied).toBe(false);
  });

  test('finds a message that was given up', () => {
    const unknown = { ...SENT, status: 'unknown' } as const;
    expect(after([report({ state: 'sent' })], unknown).status).toBe('sent');
    expect(after([report({ state: 'delivered' })], unknown).status).toBe('delivered');
  });

  test('of what the recipient did is beside the status, and the first time counts', () => {
    const opened = (at: number) => report({ engagement: 'opened', at });
    expect(after([opened(3_000), opened(2_000), opened(4_000)]).engagement).toEqual({ opened: 2_000 });
    expect(applyReport(after([opened(1)]), opened(2)).applied).toBe(false);
    expect(after([report({ state: 'delivered', engagement: 'read' })])).toMatchObject({
      status: 'delivered',
      engagement: { read: 1_000 },
    });
  });

  test('never makes a move that the table does not have, and never one down', () => {
    assert(
      property(
        constantFrom(...MESSAGE_STATES),
        constantFrom('sent', 'delivered', 'undelivered'),
        boolean(),
        boolean(),
        (status, state, final, isTemporary) => {
          const { message } = applyReport({ ...SENT, status, final }, report({ state, isTemporary }));
          expect(message.status === status || canMove(status, message.status)).toBe(true);
        },
      ),
    );
  });
});

describe('segments', () => {
  const THREE = { ...SENT, segmentCount: 3 };
  const segment = (name: string, state: Report['state']) => report({ segment: name, state });

  test('are delivered together', () => {
    const two = [segment('a', 'delivered'), segment('b', 'delivered')];
    expect(after(two, THREE).status).toBe('sent');
    expect(after([...two, segment('b', 'delivered')], THREE).status).toBe('sent');
    expect(after([...two, segment('c', 'delivered')], THREE)).toMatchObject({
      status: 'delivered',
      partial: false,
    });
  });

  test('of which one failed are undelivered in part', () => {
    expect(after([segment('a', 'delivered'), segment('b', 'undelivered')], THREE)).toMatchObject({
      status: 'undelivered',
      partial: true,
      final: true,
    });
  });

  test('of a message that has but one are the message', () => {
    expect(after([segment('a', 'delivered')]).status).toBe('delivered');
  });
});

test('the end is the same for every order and repetition of what a provider reports', () => {
  const reportsOf = (end: 'delivered' | 'undelivered', segments: number): Report[] => [
    ...Array.from({ length: segments }, (_, n) => report({ segment: `s${n}`, state: 'sent' })),
    ...Array.from({ length: segments }, (_, n) =>
      report({ segment: `s${n}`, state: n === 0 ? end : 'delivered', at: 2_000 }),
    ),
    report({ engagement: 'opened', at: 3_000 }),
    report({ engagement: 'opened', at: 4_000 }),
  ];
  const cases = record({
    end: constantFrom('delivered' as const, 'undelivered' as const),
    segments: nat({ max: 3 }),
  }).chain(({ end, segments }) => {
    const reports = reportsOf(end, segments + 1);
    const orders = shuffledSubarray([...reports, ...reports], { minLength: 2 * reports.length });
    return record({ orders, reports: constant(reports), segmentCount: constant(segments + 1) });
  });
  assert(
    property(cases, ({ orders, reports, segmentCount }) => {
      const message = { ...SENT, segmentCount };
      const [one, other] = [after(orders, message), after(reports, message)];
      // Which segments were heard of after one had failed does not matter any more.
      expect({ ...one, segments: {} }).toEqual({ ...other, segments: {} });
    }),
  );
});
