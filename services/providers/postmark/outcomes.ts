import { accountFault, permanent, transient, type CodeTable, type ErrorMeaning } from '../classify-error.ts';

/** Error codes of the email API, https://postmarkapp.com/developer/api/overview#error-codes. */
export const POSTMARK_CODES: CodeTable = {
  '10': accountFault('authentication_failed'),
  '100': transient('provider_unavailable', 'maintenance'),
  '300': permanent('content_rejected', 'invalid_content'),
  // Each mail names its own sender, so the account's other mails are accepted.
  '400': permanent('sender_rejected', 'sender_unverified'),
  '401': permanent('sender_rejected', 'sender_unverified'),
  '402': permanent('content_rejected', 'invalid_content'),
  '403': permanent('content_rejected', 'invalid_content'),
  '405': accountFault('insufficient_credit'),
  '406': permanent('recipient_unavailable', 'recipient_inactive'),
  '409': permanent('content_rejected', 'invalid_content'),
  '411': permanent('content_rejected', 'invalid_attachment'),
  '412': accountFault('account_pending'),
  '413': accountFault('account_suspended'),
  '429': transient('provider_throttled', 'rate_limited'),
  // The account's stream does not exist, or does not accept this kind of mail.
  '1221': accountFault('invalid_message_stream'),
  '1226': accountFault('invalid_message_stream'),
  '1235': accountFault('invalid_message_stream'),
  '1236': accountFault('invalid_message_stream'),
};

/** Code 300 covers every fault of a mail; its text names the field. */
export const FAULTY_FIELDS: readonly { readonly pattern: RegExp; readonly meaning: ErrorMeaning }[] = [
  // Only what Postmark names suppresses the recipient: the text also repeats the sender's address, which may be any word.
  {
    pattern: /(?:Invalid|Error parsing) '(?:To|Cc|Bcc)'/i,
    meaning: permanent('invalid_recipient', 'invalid_address'),
  },
  { pattern: /'From'/i, meaning: permanent('sender_rejected', 'invalid_sender') },
  { pattern: /'ReplyTo'/i, meaning: permanent('sender_rejected', 'invalid_reply_to') },
  { pattern: /'Headers?'/i, meaning: permanent('content_rejected', 'invalid_headers') },
  { pattern: /attachment/i, meaning: permanent('content_rejected', 'invalid_attachment') },
];
