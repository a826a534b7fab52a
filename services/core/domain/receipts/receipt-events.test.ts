import { expect, test } from 'vitest';
import { ENGAGEMENTS } from './engagement.ts';
import { applyReport, type Report, type ReportedMessage } from './apply-report.ts';
import { receiptEvents } from './receipt-events.ts';

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
const eventsOf = (before: ReportedMessage, report: Partial<Report>) =>
  receiptEvents(before, applyReport(before, { attempt: 1, at: 1_000, ...report }));

test.each([
  ['a state transition', SENT, { state: 'delivered' }, ['message.delivered']],
  [
    'an acceptance of an unknown message',
    { ...SENT, status: 'unknown' },
    { state: 'sent' },
    ['message.sent'],
  ],
  [
    'a delivery while the message waits for another call',
    { ...SENT, status: 'deferred' },
    { state: 'delivered' },
    ['message.sent', 'message.delivered'],
  ],
  [
    'an acceptance while the message is queued',
    { ...SENT, status: 'queued' },
    { state: 'sent' },
    ['message.sent'],
  ],
  ['an engagement', SENT, { engagement: 'opened' }, ['message.engagement']],
  [
    'a delivery with an engagement',
    SENT,
    { state: 'delivered', engagement: 'read' },
    ['message.delivered', 'message.engagement'],
  ],
  ['a state that is known already', SENT, { state: 'sent' }, ['message.receipt']],
  [
    'a state of a lower rank',
    { ...SENT, status: 'delivered', final: true },
    { state: 'sent' },
    ['message.receipt'],
  ],
  [
    'a bounce after the delivery',
    { ...SENT, status: 'delivered', final: true },
    { state: 'undelivered' },
    ['message.receipt'],
  ],
  [
    'one segment of several',
    { ...SENT, segmentCount: 2 },
    { state: 'delivered', segment: 'a' },
    ['message.receipt'],
  ],
  [
    'an opening that is known already',
    { ...SENT, engagement: { opened: 900 } },
    { engagement: 'opened' },
    ['message.receipt'],
  ],
  ['a report without content', SENT, {}, ['message.receipt']],
] as const)('the right events are emitted for %s', (_, before, report, expected) => {
  expect(eventsOf(before, report)).toEqual(expected);
});

test('in any order of receipts, each transition and each new engagement has exactly one event', () => {
  const reports: Partial<Report>[] = [
    { state: 'sent' },
    { state: 'delivered' },
    { state: 'undelivered', isTemporary: true },
    { state: 'undelivered' },
    ...ENGAGEMENTS.map((engagement) => ({ engagement })),
    { state: 'delivered', engagement: 'read' as const },
  ];
  let seed = 7;
  const next = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 500; round += 1) {
    let message: ReportedMessage = { ...SENT, status: next(2) === 0 ? 'sent' : 'unknown' };
    for (let n = 0; n < 8; n += 1) {
      const report = reports[next(reports.length)] as Partial<Report>;
      const applied = applyReport(message, { attempt: 1, at: 1_000 + next(5), ...report });
      const types = receiptEvents(message, applied);
      const states = types.filter((type) => type !== 'message.engagement' && type !== 'message.receipt');
      expect(states).toEqual(
        applied.message.status === message.status ? [] : [`message.${applied.message.status}`],
      );
      const isEngaged = JSON.stringify(applied.message.engagement) !== JSON.stringify(message.engagement);
      expect(types.includes('message.engagement')).toBe(isEngaged);
      message = applied.message;
    }
  }
});
