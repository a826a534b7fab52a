import { account, permanent, type CodeTable } from '../classify-error.ts';

/**
 * The mail send endpoint has no codes, only a field name per error. The fields that say more than the status does,
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

/** A 403 about the sender: the account has not proven that it owns the address. */
export const UNVERIFIED_SENDER = account('sender_unverified');
/** A 401 that says the account has used up what it paid for. */
export const NO_CREDITS = account('insufficient_credit');
