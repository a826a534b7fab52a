import type { FailureClass } from '#core/domain/sending/failure.ts';
import { accountFault, permanent, type CodeTable } from '../classify-error.ts';

/**
 * The mail send endpoint has no error codes, only a field name per error. These fields are more specific than the status,
 * https://www.twilio.com/docs/sendgrid/api-reference/mail-send/errors.
 */
export const SENDGRID_FIELDS: CodeTable = {
  from: permanent('sender_rejected', 'invalid_sender'),
  'from.email': permanent('sender_rejected', 'invalid_sender'),
  'from.name': permanent('sender_rejected', 'invalid_sender'),
  reply_to: permanent('sender_rejected', 'invalid_reply_to'),
  'reply_to.email': permanent('sender_rejected', 'invalid_reply_to'),
  personalizations: permanent('invalid_recipient', 'invalid_address'),
  to: permanent('invalid_recipient', 'invalid_address'),
  'personalizations.to': permanent('invalid_recipient', 'invalid_address'),
  'personalizations.to.email': permanent('invalid_recipient', 'invalid_address'),
  subject: permanent('content_rejected', 'invalid_subject'),
  content: permanent('content_rejected', 'invalid_content'),
  'content.type': permanent('content_rejected', 'invalid_content'),
  'content.value': permanent('content_rejected', 'invalid_content'),
  headers: permanent('content_rejected', 'invalid_headers'),
  attachments: permanent('content_rejected', 'invalid_attachment'),
  'attachments.content': permanent('content_rejected', 'invalid_attachment'),
  'attachments.filename': permanent('content_rejected', 'invalid_attachment'),
  'attachments.type': permanent('content_rejected', 'invalid_attachment'),
};

/**
 * A 403 about the sender: the account has not verified that it owns the address. Each mail names its own, so the account's
 * other mails are accepted.
 */
export const UNVERIFIED_SENDER = permanent('sender_rejected', 'sender_unverified');
/** A 401 that reports used-up credits. */
export const NO_CREDITS = accountFault('insufficient_credit');

type Meaning = { readonly class: FailureClass; readonly code: string };

/**
 * SendGrid's classification of a receiving server's answer, in lower case, where it is more specific than the status,
 * https://www.twilio.com/docs/sendgrid/ui/analytics-and-reporting/bounce-and-block-classifications.
 */
export const BOUNCE_CLASSIFICATIONS: ReadonlyMap<string, Meaning> = new Map([
  ['invalid address', { class: 'invalid_recipient', code: 'unknown_recipient' }],
  ['content', { class: 'content_rejected', code: 'rejected_by_policy' }],
  ['reputation', { class: 'sender_rejected', code: 'poor_reputation' }],
  // The value of a report, and the name in the page's list.
  ['frequency or volume too high', { class: 'recipient_unavailable', code: 'too_many_messages' }],
  ['frequency/volume', { class: 'recipient_unavailable', code: 'too_many_messages' }],
]);

/**
 * SendGrid's classifications, in lower case, of answers that do not call the address invalid: the mailbox is full or
 * disabled, or there is a technical problem on one of the two sides (SendGrid, "Bounce and Block Classifications").
 */
export const NOT_THE_ADDRESS: ReadonlySet<string> = new Set([
  'mailbox unavailable',
  'technical',
  'technical failure',
]);

/** No server took the mail for as long as SendGrid tries. */
export const EXPIRED: Meaning = { class: 'recipient_unavailable', code: 'delivery_timeout' };

/**
 * Why SendGrid drops a mail without a delivery attempt,
 * https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event#dropped.
 */
export const DROP_REASONS: readonly { readonly pattern: RegExp; readonly meaning: Meaning }[] = [
  {
    pattern: /^(?:group )?unsubscribe|^spam report/i,
    meaning: { class: 'recipient_unavailable', code: 'recipient_opted_out' },
  },
  { pattern: /^bounced/i, meaning: { class: 'invalid_recipient', code: 'bounced_before' } },
  { pattern: /^invalid smtpapi/i, meaning: { class: 'content_rejected', code: 'invalid_headers' } },
  { pattern: /^invalid/i, meaning: { class: 'invalid_recipient', code: 'invalid_address' } },
  { pattern: /^spam content/i, meaning: { class: 'content_rejected', code: 'rejected_by_policy' } },
  { pattern: /quota/i, meaning: { class: 'auth_or_config', code: 'insufficient_credit' } },
];
