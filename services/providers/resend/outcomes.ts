import type { FailureClass } from '#core/domain/sending/failure.ts';
import { accountFault, permanent, transient, type CodeTable, type ErrorMeaning } from '../classify-error.ts';

/** Error names, https://resend.com/docs/api-reference/errors. */
export const RESEND_ERRORS: CodeTable = {
  validation_error: permanent('content_rejected', 'invalid_content'),
  missing_required_field: permanent('content_rejected', 'invalid_content'),
  missing_required_fields: permanent('content_rejected', 'invalid_content'),
  missing_required_parameter: permanent('content_rejected', 'invalid_content'),
  invalid_parameter: permanent('content_rejected', 'invalid_content'),
  invalid_idempotency_key: permanent('content_rejected', 'invalid_content'),
  invalid_attachment: permanent('content_rejected', 'invalid_attachment'),
  invalid_from_address: permanent('sender_rejected', 'invalid_sender'),
  security_error: permanent('content_rejected', 'rejected_by_policy'),
  missing_api_key: accountFault('authentication_failed'),
  invalid_api_key: accountFault('authentication_failed'),
  suspended_api_key: accountFault('account_suspended'),
  restricted_api_key: accountFault('forbidden'),
  invalid_access: accountFault('forbidden'),
  monthly_quota_exceeded: accountFault('insufficient_credit'),
  daily_quota_exceeded: transient('provider_throttled', 'daily_cap_reached'),
  rate_limit_exceeded: transient('provider_throttled', 'rate_limited'),
  resource_locked: transient('provider_unavailable', 'request_in_progress'),
  // An earlier copy is in flight; on a retry Resend answers with its result.
  concurrent_idempotent_requests: transient('provider_unavailable', 'request_in_progress'),
};

/** Text of the validation error that answers a key which was deleted; the documentation names `invalid_api_key` instead. */
export const INVALID_KEY = /^API key is invalid/i;
/** A 403 about the sender: its domain is not verified. Each mail names its own sender. */
export const UNVERIFIED_SENDER = permanent('sender_rejected', 'sender_unverified');
/** The 403 of Resend's own test domain, from which mails go to the account's owner only. */
export const TRIAL_RESTRICTION = permanent('sender_rejected', 'trial_restriction');

/** The text of a validation error names the field. */
export const FAULTY_FIELDS: readonly { readonly pattern: RegExp; readonly meaning: ErrorMeaning }[] = [
  { pattern: /`(?:to|cc|bcc)`/i, meaning: permanent('invalid_recipient', 'invalid_address') },
  { pattern: /`from`/i, meaning: permanent('sender_rejected', 'invalid_sender') },
  { pattern: /`reply_?to`/i, meaning: permanent('sender_rejected', 'invalid_reply_to') },
  { pattern: /`headers?`/i, meaning: permanent('content_rejected', 'invalid_headers') },
  { pattern: /attachment/i, meaning: permanent('content_rejected', 'invalid_attachment') },
];

type Meaning = { readonly class: FailureClass; readonly code: string };
const SUPPRESSED: Meaning = { class: 'recipient_unavailable', code: 'recipient_inactive' };

/** Bounce types that are more specific than the bounce text, https://resend.com/docs/dashboard/emails/email-bounces. */
export const BOUNCES: ReadonlyMap<string, Meaning> = new Map([
  ['NoEmail', { class: 'invalid_recipient', code: 'unknown_recipient' }],
  ['MailboxFull', { class: 'recipient_unavailable', code: 'mailbox_full' }],
  ['MessageTooLarge', { class: 'content_rejected', code: 'payload_too_large' }],
  ['ContentRejected', { class: 'content_rejected', code: 'rejected_by_policy' }],
  ['AttachmentRejected', { class: 'content_rejected', code: 'invalid_attachment' }],
  ['Suppressed', SUPPRESSED],
  ['OnAccountSuppressionList', SUPPRESSED],
]);

/** Resend did not try the mail because the address is on its suppression list of bounces and complaints. */
export const ON_SUPPRESSION_LIST = SUPPRESSED;
