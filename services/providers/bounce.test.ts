import { expect, test } from 'vitest';
import { bounceFailure } from './bounce.ts';

test.each<readonly [status: string, text: string, isHard: boolean, failureClass: string, code: string]>([
  ['5.1.1', '', true, 'invalid_recipient', 'unknown_recipient'],
  // An ambiguous address, and codes that no registry explains: not that the mailbox does not exist.
  ['5.1.4', '', false, 'recipient_unavailable', 'bounced'],
  ['5.1.9', '', false, 'recipient_unavailable', 'bounced'],
  ['5.1.20', '550 5.1.20 Multiple From addresses are not allowed', false, 'recipient_unavailable', 'bounced'],
  ['5.1.351', '', true, 'invalid_recipient', 'bounced'],
  ['5.1.0', '', true, 'invalid_recipient', 'bounced'],
  ['5.1.0', '', false, 'recipient_unavailable', 'bounced'],
  ['4.1.1', '', true, 'recipient_unavailable', 'bounced'],
  ['4.1.2', '', false, 'recipient_unavailable', 'bounced'],
  ['', '450 4.1.10 no MX for now', true, 'recipient_unavailable', 'bounced'],
  ['4.1.0', '', true, 'recipient_unavailable', 'bounced'],
  ['4.0.0', '', true, 'recipient_unavailable', 'bounced'],
  ['4.1.8', '', true, 'sender_rejected', 'invalid_sender'],
  ['5.1.10', '', true, 'invalid_recipient', 'unknown_domain'],
  ['5.1.8', '', true, 'sender_rejected', 'invalid_sender'],
  ['5.2.2', '', true, 'recipient_unavailable', 'mailbox_full'],
  ['4.4.7', '', true, 'recipient_unavailable', 'server_unreachable'],
  ['5.7.1', '', true, 'content_rejected', 'rejected_by_policy'],
  ...[20, 21, 22, 23, 24, 25, 26, 29, 509, 515].map(
    (detail) => [`5.7.${detail}`, '', true, 'sender_rejected', 'sender_unauthenticated'] as const,
  ),
  ['5.7.27', '', true, 'sender_rejected', 'invalid_sender'],
  ['', 'smtp; 550-5.1.1 no such user', false, 'invalid_recipient', 'unknown_recipient'],
  ['550', '552 5.2.2. Over quota', true, 'recipient_unavailable', 'mailbox_full'],
  ['', 'refused by 5.1.1.7', true, 'invalid_recipient', 'bounced'],
  ['', 'refused by 10.5.1.1', false, 'recipient_unavailable', 'bounced'],
  ['5.0.0', '', true, 'invalid_recipient', 'bounced'],
  ['constructor', 'constructor', false, 'recipient_unavailable', 'bounced'],
])('a bounce with %j and %j, hard: %s, is %s, %s', (status, text, isHard, failureClass, code) => {
  expect(bounceFailure({ status, text, isHard }, [])).toMatchObject({ class: failureClass, code });
});

test('addresses in a bounce text are redacted', () => {
  const failure = bounceFailure(
    { status: '5.1.1', text: '550 ada@example.com and ADA1 are unknown', isHard: true },
    ['ADA1'],
  );
  expect(failure).toEqual({
    class: 'invalid_recipient',
    code: 'unknown_recipient',
    providerCode: '5.1.1',
    providerMessage: '550 [redacted] and [redacted] are unknown',
  });
});
