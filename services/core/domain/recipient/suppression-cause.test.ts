import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { CHANNELS } from '../message/channel.ts';
import { ENGAGEMENTS } from '../receipts/engagement.ts';
import { FAILURE_CLASSES, type Failure } from '../sending/failure.ts';
import { RECEIPT_KINDS } from '../sending/outcome.ts';
import { causeOfRefusal, causeOfReport, suppressionFor } from './suppression-cause.ts';

const OPTED_OUT: Failure = {
  class: 'recipient_unavailable',
  code: 'recipient_opted_out',
  providerCode: '21610',
};
const BOUNCED: Failure = { class: 'invalid_recipient', code: 'bounced' };
const failure: fc.Arbitrary<Failure> = fc.record({
  class: fc.constantFrom(...FAILURE_CLASSES),
  code: fc.constantFrom(
    'recipient_opted_out',
    'bounced',
    'unknown_recipient',
    'mailbox_full',
    'unreachable_number',
  ),
});
const report = fc.record({
  receipt: fc.option(fc.constantFrom(...RECEIPT_KINDS)),
  temporary: fc.boolean(),
  failure: fc.option(failure),
  engagement: fc.option(fc.constantFrom(...ENGAGEMENTS)),
});
const NOTHING = { receipt: null, temporary: false, failure: null, engagement: null };

test.each([
  [{ ...NOTHING, engagement: 'complained' }, 'complaint'],
  [{ ...NOTHING, engagement: 'unsubscribed' }, 'unsubscribe'],
  [{ ...NOTHING, engagement: 'opened' }, null],
  [{ ...NOTHING, receipt: 'undelivered', failure: BOUNCED }, 'hard_bounce'],
  [{ ...NOTHING, receipt: 'undelivered', failure: OPTED_OUT }, 'opt_out'],
  [{ ...NOTHING, receipt: 'undelivered', failure: BOUNCED, temporary: true }, null],
  [
    { ...NOTHING, receipt: 'undelivered', failure: { class: 'recipient_unavailable', code: 'mailbox_full' } },
    null,
  ],
  [
    { ...NOTHING, receipt: 'undelivered', failure: { class: 'recipient_unavailable', code: 'bounced' } },
    null,
  ],
  [{ ...NOTHING, receipt: 'delivered' }, null],
] as const)('a report %j gives the suppression cause: %s', (said, cause) => {
  expect(causeOfReport(said)).toBe(cause);
});

test('only a permanent refusal that is due to the recipient is a suppression cause', () => {
  expect(causeOfRefusal({ kind: 'rejected_permanent', failure: OPTED_OUT })).toBe('opt_out');
  expect(causeOfRefusal({ kind: 'rejected_permanent', failure: BOUNCED })).toBe('hard_bounce');
  for (const code of [
    'recipient_not_allowed',
    'unreachable_number',
    'undeliverable',
    'token_of_other_app',
    'invalid_recipient',
  ])
    expect(
      causeOfRefusal({ kind: 'rejected_permanent', failure: { class: 'invalid_recipient', code } }),
    ).toBeNull();
  fc.assert(
    fc.property(
      failure,
      fc.constantFrom('rejected_transient' as const, 'ambiguous' as const),
      (why, kind) => {
        expect(causeOfRefusal({ kind, failure: why })).toBeNull();
      },
    ),
  );
});

test('only a permanent undelivered report gives a hard bounce or an opt-out', () => {
  fc.assert(
    fc.property(report, (said) => {
      const cause = causeOfReport(said);
      if (cause !== 'hard_bounce' && cause !== 'opt_out') return;
      expect(said).toMatchObject({ receipt: 'undelivered', temporary: false });
    }),
  );
});

test.each(CHANNELS)('%s: the cause determines the reason and scope of the suppression', (channel) => {
  expect(suppressionFor('complaint', channel)).toEqual({ reason: 'complaint', scope: 'marketing' });
  expect(suppressionFor('unsubscribe', channel)).toEqual({ reason: 'unsubscribe', scope: 'marketing' });
  expect(suppressionFor('hard_bounce', channel)).toEqual({ reason: 'hard_bounce', scope: 'all' });
  const isWish = channel === 'email' || channel === 'whatsapp';
  expect(suppressionFor('opt_out', channel)).toEqual(
    isWish ? { reason: 'unsubscribe', scope: 'marketing' } : { reason: 'opt_out', scope: 'all' },
  );
});
