import type { FailureClass } from '#core/domain/sending/failure.ts';
import { accountFault, permanent, transient, type ErrorMeaning } from '../classify-error.ts';
import { UNSUPPORTED_RECIPIENT } from '../mailbox.ts';

/** The domain may send no more for a while. Mailgun answers with HTTP 420 too, which its reference does not list. */
export const LIMIT_REACHED = transient('provider_throttled', 'rate_limited');

/** Code of a recipient whose address has a wrong syntax. */
export const INVALID_ADDRESS = 'invalid_address';

/**
 * Mailgun has no error codes, only a text for people. These texts are more specific than the status,
 * https://documentation.mailgun.com/docs/mailgun/api-reference/mailgun-responses.
 */
export const REFUSALS: readonly { readonly pattern: RegExp; readonly meaning: ErrorMeaning }[] = [
  {
    pattern: /test purposes|authorized recipients/i,
    meaning: permanent('sender_rejected', 'trial_restriction'),
  },
  { pattern: /limit exceeded|too many|too fast|on probation/i, meaning: LIMIT_REACHED },
  { pattern: /(?:unverified|not verified)/i, meaning: accountFault('sender_unverified') },
  {
    pattern: /not allowed to send|activate your mailgun account|disabled|suspended/i,
    meaning: accountFault('account_suspended'),
  },
  { pattern: /domain not found/i, meaning: accountFault('domain_not_found') },
  // The text may repeat an address, which may be any word, so the name of the parameter is what counts.
  { pattern: /reply-to'? parameter/i, meaning: permanent('sender_rejected', 'invalid_reply_to') },
  { pattern: /(?<![-\w])from'? parameter/i, meaning: permanent('sender_rejected', 'invalid_sender') },
  { pattern: /(?<![-\w])to'? parameter/i, meaning: permanent('invalid_recipient', INVALID_ADDRESS) },
  { pattern: /reply-to/i, meaning: permanent('sender_rejected', 'invalid_reply_to') },
  // They contain the mail's headers.
  { pattern: /^send options\b/i, meaning: permanent('content_rejected', 'invalid_headers') },
  { pattern: /attachment/i, meaning: permanent('content_rejected', 'invalid_attachment') },
  {
    pattern: /need at least one of|'(?:text|html|subject)'/i,
    meaning: permanent('content_rejected', 'invalid_content'),
  },
  // The word alone does not say that the address is at fault, so the recipient is not suppressed.
  { pattern: /recipient/i, meaning: permanent('invalid_recipient', 'address_refused') },
];

/** Mailgun takes only ASCII before the `@` of a sender. */
export const UNSUPPORTED_SENDER = permanent('sender_rejected', 'invalid_sender');

/** The recipient's address needs an extension that Mailgun or the receiving server does not have (RFC 6531). */
export const UNSUPPORTED_ADDRESS = { ...UNSUPPORTED_RECIPIENT, retry: false } as const;

/** Mailgun does not know the domain, or not in this region. */
export const UNKNOWN_DOMAIN = accountFault('domain_not_found');

/** The text of Mailgun's server for an unknown path. Nothing was sent. */
export const OTHER_ENDPOINT = accountFault('wrong_endpoint');

/** Domain states in which the domain cannot send. */
export const DOMAIN_STATES: Readonly<Record<string, ErrorMeaning>> = {
  unverified: accountFault('sender_unverified'),
  disabled: accountFault('account_suspended'),
};

type Meaning = { readonly class: FailureClass; readonly code: string };

/** Why Mailgun gave up on a mail, where that is more specific than the receiving server's code. */
export const REASONS: ReadonlyMap<string, Meaning> = new Map([
  ['suppress-bounce', { class: 'invalid_recipient', code: 'bounced_before' }],
  ['suppress-unsubscribe', { class: 'recipient_unavailable', code: 'recipient_opted_out' }],
  ['suppress-complaint', { class: 'recipient_unavailable', code: 'recipient_opted_out' }],
  ['old', { class: 'recipient_unavailable', code: 'delivery_timeout' }],
  ['espblock', { class: 'sender_rejected', code: 'poor_reputation' }],
]);

/** Mailgun's own codes for suppressed recipients, used in place of a receiving server's code. */
export const SUPPRESSIONS: ReadonlyMap<string, Meaning> = new Map([
  ['602', { class: 'recipient_unavailable', code: 'delivery_timeout' }],
  ['605', { class: 'invalid_recipient', code: 'bounced_before' }],
  ['606', { class: 'recipient_unavailable', code: 'recipient_opted_out' }],
  ['607', { class: 'recipient_unavailable', code: 'recipient_opted_out' }],
]);
