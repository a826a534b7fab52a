import { accountFault, permanent, transient, type CodeTable } from '../classify-error.ts';

export const INVALID_NUMBER = permanent('invalid_recipient', 'invalid_number');
export const INVALID_SENDER = permanent('sender_rejected', 'invalid_sender');
export const BODY_TOO_LONG = permanent('content_rejected', 'body_too_long');
/** https://www.plivo.com/docs/messaging/concepts/geo-permissions; codes 450 and 451 mean the same. */
export const REGION_NOT_PERMITTED = permanent('sender_rejected', 'region_not_permitted');

/** Codes in message reports, https://www.plivo.com/docs/messaging/troubleshooting/error-codes. */
export const PLIVO_CODES: CodeTable = {
  10: permanent('content_rejected', 'invalid_message'),
  20: transient('provider_unavailable', 'network_error'),
  30: permanent('content_rejected', 'blocked'),
  40: INVALID_SENDER,
  50: INVALID_NUMBER,
  60: permanent('recipient_unavailable', 'loop_detected'),
  70: permanent('invalid_recipient', 'unreachable_number'),
  80: transient('recipient_unavailable', 'handset_unreachable'),
  90: permanent('recipient_unavailable', 'unroutable'),
  100: permanent('recipient_unavailable', 'refused_by_carrier'),
  110: BODY_TOO_LONG,
  200: permanent('recipient_unavailable', 'recipient_opted_out'),
  201: REGION_NOT_PERMITTED,
  300: transient('provider_unavailable', 'dispatch_failed'),
  420: permanent('recipient_unavailable', 'message_expired'),
  450: REGION_NOT_PERMITTED,
  451: transient('provider_throttled', 'region_cap_reached'),
  900: accountFault('insufficient_credit'),
  910: accountFault('account_suspended'),
};

/** Parameters of the Message resource that the text of a 400 may name; the response has no codes. */
export const PLIVO_PARAMETERS: CodeTable = {
  dst: INVALID_NUMBER,
  src: INVALID_SENDER,
  powerpack_uuid: permanent('sender_rejected', 'invalid_powerpack'),
  text: permanent('content_rejected', 'invalid_message'),
};
