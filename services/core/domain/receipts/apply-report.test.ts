import {
  array,
  assert,
  boolean,
  constant,
  constantFrom,
  nat,
  property,
  record,
  shuffledSubarray,
} from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import { areImplied, impliedCopies } from './reported-copies.ts';
import { canMove, isWaiting, MESSAGE_STATES } from '../message/message-state.ts';

const SENT: ReportedMessage = {
  status: 'sent',
  final: false,
  attempt: 1,
  failure: null,
  segmentCount: 1,
  copies: {},
  partial: false,
  lateBounce: false,
  engagement: {},
};
const report = (over: Partial<Report>): Report => ({ attempt: 1, at: 1_000, ...over });
const after = (reports: readonly Report[], message = SENT): ReportedMessage =>
  reports.reduce((now, one) => applyReport(now, one).message, message);

describe('a report', () => {
  test.each([
    ['segments of one copy', { segmentCount: 2 }, (n: number) => ({ segment: `s${n}` }), 4],
    [
      'segments without an attempt',
      { segmentCount: 2, attempt: 3 },
      (n: number) => ({ attempt: null, segment: `s${n}` }),
      12,
    ],
    [
      'segments of one of several copies',
      { segmentCount: 2, attempt: 3 },
      (n: number) => ({ segment: `s${n}` }),
      4,
    ],
    ['copies without an attempt', { attempt: 3 }, (n: number) => ({ attempt: null, vendorId: `v${n}` }), 3],
    ['copies with an attempt', { attempt: 3 }, (n: number) => ({ attempt: n + 1 }), 3],
  ])('adds no more %s than the message can have', (_, terms, named, most) => {
    const reports = Array.from({ length: 100 }, (_, n) =>
      report({ state: 'undelivered', isTemporary: true, ...named(n) }),
    );
    const { copies } = after(reports, { ...SENT, ...terms });
    expect(Object.values(copies).flatMap((parts) => Object.keys(parts))).toHaveLength(most);
  });

  test('still counts if it is about a known segment or the whole message when no further segment is possible', () => {
    const failing = ['a', 'b', 'c', 'd'].map((segment) =>
      report({ segment, state: 'undelivered', isTemporary: true }),
    );
    const full = after(failing, { ...SENT, segmentCount: 2 });
    const delivered = { status: 'delivered', final: true };
    expect(after([report({ segment: 'e', state: 'delivered' })], full)).toEqual(full);
    const known = ['a', 'b'].map((segment) => report({ segment, state: 'delivered' }));
    expect(after(known, full)).toMatchObject(delivered);
    expect(after([report({ state: 'delivered' })], full)).toMatchObject(delivered);
  });

  test('of the acceptance of a waiting message makes it sent, without the failure of another call', () => {
    const failure = { class: 'provider_unavailable', code: 'http_503' } as const;
    const waiting = { ...SENT, status: 'deferred', failure } as const;
    expect(after([report({ state: 'sent' })], waiting)).toEqual(SENT);
  });

  test('leaves a sent message final, or not, until it changes the status', () => {
    const long = { ...SENT, final: true, segmentCount: 2 };
    expect(after([report({ segment: 'a', state: 'delivered' })], long)).toMatchObject({
      status: 'sent',
      final: true,
    });
    expect(after([report({ state: 'undelivered', isTemporary: true })], long)).toMatchObject({
      status: 'undelivered',
      final: false,
    });
  });

  test('moves a sent message to delivered or undelivered', () => {
    const failure = { class: 'recipient_unavailable', code: 'handset_unreachable' } as const;
    expect(after([report({ state: 'delivered' })])).toEqual({
      ...SENT,
      status: 'delivered',
      final: true,
      copies: { 1: { '': 'delivered' } },
    });
    expect(after([report({ state: 'undelivered', failure })])).toEqual({
      ...SENT,
      status: 'undelivered',
      final: true,
      failure,
      copies: { 1: { '': 'undelivered' } },
    });
  });

  test('without new information is not applied and leaves the message unchanged', () => {
    const message = after([report({ state: 'delivered' })]);
    for (const one of [report({ state: 'sent' }), report({ state: 'delivered' }), report({})])
      expect(applyReport(message, one)).toEqual({ applied: false, message });
  });

  test('of a delivery overrides a temporary failure of the same copy, but not a permanent one', () => {
    const temporary = after([report({ state: 'undelivered', isTemporary: true })]);
    expect(temporary).toMatchObject({ status: 'undelivered', final: false });
    expect(after([report({ state: 'delivered' })], temporary).status).toBe('delivered');
    expect(after([report({ state: 'delivered', attempt: null })], temporary).status).toBe('delivered');
    const failure = { class: 'recipient_unavailable', code: 'handset_unreachable' } as const;
    const final = after([report({ state: 'undelivered', failure })], temporary);
    expect(final).toMatchObject({ status: 'undelivered', final: true, failure });
    expect(after([report({ state: 'delivered' })], final).status).toBe('undelivered');
  });

  test('of the same end names the cause if the first one did not, and changes nothing else', () => {
    const vague = { class: 'recipient_unavailable', code: 'bounced' } as const;
    const hard = { class: 'invalid_recipient', code: 'unknown_recipient' } as const;
    const message = after([report({ state: 'undelivered', failure: vague })]);
    expect(applyReport(message, report({ state: 'undelivered', failure: hard }))).toEqual({
      applied: true,
      message: { ...message, failure: hard },
    });
    for (const one of [
      report({ state: 'undelivered', failure: { ...vague, code: 'handset_unreachable' } }),
      report({ state: 'undelivered', failure: hard, isTemporary: true }),
      report({ state: 'sent', failure: hard }),
    ])
      expect(applyReport(message, one)).toEqual({ applied: false, message });
  });

  test('on an expired, canceled or failed message is not applied', () => {
    for (const status of ['expired', 'canceled', 'failed'] as const) {
      const message = { ...SENT, status, final: true };
      expect(applyReport(message, report({ state: 'delivered' }))).toEqual({ applied: false, message });
    }
  });

  test('of a bounce after the delivery sets lateBounce and keeps the status', () => {
    const failure = { class: 'invalid_recipient', code: 'unknown_recipient' } as const;
    const bounce = report({ state: 'undelivered', failure });
    const bounced = after([report({ state: 'delivered' }), bounce]);
    expect(bounced).toMatchObject({ status: 'delivered', final: true, lateBounce: true, failure: null });
    expect(after([report({ state: 'delivered' }), { ...bounce, attempt: null }])).toEqual(bounced);
    expect(applyReport(bounced, report({ state: 'undelivered' })).applied).toBe(false);
  });

  test('of a temporary failure after the delivery is not applied', () => {
    const message = after([report({ state: 'delivered' })]);
    const late = report({ state: 'undelivered', isTemporary: true });
    expect(applyReport(message, late)).toEqual({ applied: false, message });
  });

  test('moves an unknown message to sent or delivered', () => {
    const unknown = { ...SENT, status: 'unknown' } as const;
    expect(after([report({ state: 'sent' })], unknown).status).toBe('sent');
    expect(after([report({ state: 'delivered' })], unknown).status).toBe('delivered');
    expect(after([report({ engagement: 'opened' })], unknown).status).toBe('unknown');
  });

  test('of an engagement is stored with its earliest time, independently of the status', () => {
    const opened = (at: number) => report({ engagement: 'opened', at });
    expect(after([opened(3_000), opened(2_000), opened(4_000)]).engagement).toEqual({ opened: 2_000 });
    expect(applyReport(after([opened(1)]), opened(2)).applied).toBe(false);
    expect(after([report({ state: 'delivered', engagement: 'read' })])).toMatchObject({
      status: 'delivered',
      engagement: { read: 1_000 },
    });
  });

  test('only makes transitions that the state table allows', () => {
    assert(
      property(
        constantFrom(...MESSAGE_STATES),
        constantFrom('sent', 'delivered', 'undelivered'),
        boolean(),
        boolean(),
        (status, state, final, isTemporary) => {
          const { message } = applyReport({ ...SENT, status, final }, report({ state, isTemporary }));
          const from = isWaiting(status) && canMove(status, 'sent') ? 'sent' : status;
          expect([status, from].includes(message.status) || canMove(from, message.status)).toBe(true);
        },
      ),
    );
  });
});

describe('segments', () => {
  const THREE = { ...SENT, segmentCount: 3 };
  const segment = (name: string, state: Report['state']) => report({ segment: name, state });

  test('make a message delivered once all of them are delivered', () => {
    const two = [segment('a', 'delivered'), segment('b', 'delivered')];
    expect(after(two, THREE).status).toBe('sent');
    expect(after([...two, segment('b', 'delivered')], THREE).status).toBe('sent');
    expect(after([...two, segment('c', 'delivered')], THREE)).toMatchObject({
      status: 'delivered',
      partial: false,
    });
  });

  test('with one failure make a message undelivered and partial', () => {
    expect(after([segment('a', 'delivered'), segment('b', 'undelivered')], THREE)).toMatchObject({
      status: 'undelivered',
      partial: true,
      final: true,
    });
  });

  test('that bounce after all were delivered set lateBounce and keep the status', () => {
    const all = ['a', 'b', 'c'].map((name) => segment(name, 'delivered'));
    const bounced = after([...all, segment('b', 'undelivered')], THREE);
    expect(bounced).toMatchObject({ status: 'delivered', lateBounce: true, partial: false });
    expect(after([all[1] as Report, segment('b', 'undelivered'), ...all], THREE)).toEqual(bounced);
    expect(applyReport(bounced, segment('b', 'undelivered')).applied).toBe(false);
  });

  test('of a single-segment message decide its status', () => {
    expect(after([segment('a', 'delivered')])).toMatchObject({
      status: 'delivered',
      copies: { 1: { '': 'delivered' } },
    });
  });

  test('need not be named if the whole message is delivered', () => {
    expect(after([report({ state: 'delivered' })], THREE)).toMatchObject({
      status: 'delivered',
      copies: { 1: { '': 'delivered' } },
    });
  });
});

describe('a message that was sent twice', () => {
  const TWICE = { ...SENT, attempt: 2 };
  const of = (attempt: number | null, state: Report['state'], over: Partial<Report> = {}) =>
    report({ attempt, state, ...over });

  test('stays sent when the first copy fails, until the second copy is reported on', () => {
    const failed = after([of(1, 'undelivered')], TWICE);
    expect(failed).toMatchObject({ status: 'sent', final: false, failure: null });
    expect(after([of(2, 'delivered')], failed)).toMatchObject({ status: 'delivered', lateBounce: false });
    expect(after([of(2, 'undelivered')], failed)).toMatchObject({ status: 'undelivered', final: true });
  });

  test('is delivered by any copy, and a failure of another copy is not a late bounce', () => {
    for (const reports of [
      [of(2, 'delivered'), of(1, 'undelivered')],
      [of(1, 'delivered'), of(2, 'undelivered')],
      [of(2, 'undelivered'), of(1, 'delivered')],
      [of(null, 'undelivered', { vendorId: 'a' }), of(null, 'delivered', { vendorId: 'b' })],
    ])
      expect(after(reports, TWICE)).toMatchObject({ status: 'delivered', final: true, lateBounce: false });
    const bounced = after([of(1, 'delivered'), of(1, 'undelivered')], TWICE);
    expect(bounced).toMatchObject({ status: 'delivered', lateBounce: true });
    const failure = { class: 'invalid_recipient', code: 'unknown_recipient' } as const;
    expect(after([of(1, 'delivered'), of(1, 'undelivered', { failure })], TWICE)).toEqual(bounced);
    expect(after([of(2, 'delivered')], bounced)).toMatchObject({ lateBounce: false });
  });

  test('is not delivered by segments of different copies', () => {
    const LONG = { ...TWICE, segmentCount: 2 };
    const segment = (attempt: number | null, name: string) =>
      of(attempt, 'delivered', { segment: name, vendorId: `vendor ${name}` });
    expect(after([segment(1, 'a'), segment(2, 'b')], LONG).status).toBe('sent');
    expect(after([segment(1, 'a'), segment(2, 'b'), segment(2, 'c')], LONG).status).toBe('delivered');
    // Whichever copies these belong to: of three segments, two are of the same copy.
    const unplaced = ['a', 'b', 'c'].map((name) => segment(null, name));
    expect(after(unplaced.slice(1), LONG).status).toBe('sent');
    expect(after(unplaced, LONG)).toMatchObject({ status: 'delivered', lateBounce: false });
    // Of five, three.
    const more = ['a', 'b', 'c', 'd', 'e'].map((name) => segment(null, name));
    expect(after(more.slice(1), { ...LONG, segmentCount: 3 }).status).toBe('sent');
    expect(after(more, { ...LONG, segmentCount: 3 }).status).toBe('delivered');
    expect(after([segment(2, 'd'), ...unplaced.slice(1)], LONG).status).toBe('delivered');
  });

  test('treats a report without an attempt as one of the last copy', () => {
    const unknown = { ...TWICE, status: 'unknown' } as const;
    for (const vendorId of [undefined, 'v'])
      expect(after([of(null, 'undelivered', { vendorId })], unknown)).toMatchObject({
        status: 'undelivered',
        final: true,
      });
    const known = [of(1, 'undelivered'), of(2, 'undelivered', { isTemporary: true })];
    expect(after([...known, of(null, 'delivered', { vendorId: 'v' })], TWICE).status).toBe('delivered');
    expect(after([of(1, 'undelivered')], unknown).status).toBe('unknown');
  });
});

test('copies of a message that was reported on as a whole are implied by its record', () => {
  const states = ['sent', 'delivered', 'undelivered', 'undelivered'] as const;
  const temporary = (n: number) => ({ isTemporary: n % 2 === 1 });
  for (const [n, state] of states.entries()) {
    for (const more of [[], [report({ state: 'undelivered' })], [report({ state: 'delivered' })]]) {
      const message = after([report({ state, ...temporary(n) }), ...more]);
      expect(areImplied(message.copies, 1)).toBe(true);
      expect(impliedCopies(1, message.status, message)).toEqual(message.copies);
    }
  }
  const twice = after([report({ state: 'delivered' })], { ...SENT, attempt: 2 });
  expect(areImplied(twice.copies, 2)).toBe(false);
  expect(areImplied({ 1: { a: 'delivered' } }, 1)).toBe(false);
  expect(areImplied({ 1: { '': 'failing', a: 'delivered' } }, 1)).toBe(false);
});

test('the final state is the same for any order and repetition of the reports on each copy', () => {
  type End = 'delivered' | 'undelivered' | 'silent';
  const reportsOf = (attempt: number, end: End, segments: number): Report[] => [
    ...Array.from({ length: segments }, (_, n) =>
      report({ attempt, segment: `${attempt}.${n}`, state: 'sent' }),
    ),
    ...(end === 'silent'
      ? []
      : Array.from({ length: segments }, (_, n) =>
          report({ attempt, segment: `${attempt}.${n}`, state: n === 0 ? end : 'delivered', at: 2_000 }),
        )),
    report({ attempt, engagement: 'opened', at: 3_000 + attempt }),
  ];
  const cases = record({
    ends: array(constantFrom<End>('delivered', 'undelivered', 'silent'), { minLength: 1, maxLength: 3 }),
    segments: nat({ max: 3 }),
    status: constantFrom('sent' as const, 'unknown' as const),
  }).chain(({ ends, segments, status }) => {
    const reports = ends.flatMap((end, n) => reportsOf(n + 1, end, segments + 1));
    const message = { ...SENT, status, attempt: ends.length, segmentCount: segments + 1 };
    const orders = shuffledSubarray([...reports, ...reports], { minLength: 2 * reports.length });
    return record({ orders, reports: constant(reports), message: constant(message), ends: constant(ends) });
  });
  assert(
    property(cases, ({ orders, reports, message, ends }) => {
      const [one, other] = [after(orders, message), after(reports, message)];
      expect(one).toEqual(other);
      const last = ends.at(-1) === 'silent' ? 'sent' : ends.at(-1);
      expect(one.status).toBe(ends.includes('delivered') ? 'delivered' : last);
      expect(one.lateBounce).toBe(false);
    }),
  );
});
