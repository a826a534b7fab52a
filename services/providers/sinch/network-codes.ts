import { codes, permanent, transient, type CodeTable } from '../classify-error.ts';

const PROVIDER_ERROR = transient('provider_unavailable', 'provider_error');
const NETWORK_ERROR = transient('provider_unavailable', 'network_error');
const UNREACHABLE_NUMBER = permanent('invalid_recipient', 'unreachable_number');
const HANDSET_UNREACHABLE = transient('recipient_unavailable', 'handset_unreachable');
const UNSUPPORTED = permanent('recipient_unavailable', 'unsupported_recipient');
const BARRED = permanent('recipient_unavailable', 'recipient_blocked');
const BLOCKED = permanent('content_rejected', 'blocked');

/**
 * Codes of delivery reports that Sinch's networks report, https://developers.sinch.com/docs/sms/smpp/error-codes ("Status
 * reports error codes") and https://developers.sinch.com/docs/sms/smpp/10dlc-errors. Codes left out say nothing about the
 * message, such as "unknown error", or cannot occur with a text.
 */
export const SINCH_NETWORK_CODES: CodeTable = {
  // Routing.
  ...codes(PROVIDER_ERROR, 1, 2, 3, 4, 5, 6, 7, 8),
  ...codes(UNREACHABLE_NUMBER, 9, 10),
  ...codes(permanent('recipient_unavailable', 'undeliverable'), 11),
  ...codes(permanent('recipient_unavailable', 'unroutable'), 12, 13, 14, 17),
  // Screening: spam (15, in the United States), the recipient's SIM (16), keywords (62).
  ...codes(BLOCKED, 15, 62),
  ...codes(BARRED, 16, 61),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 60),
  ...codes(transient('provider_throttled', 'quota_exceeded'), 64),
  ...codes(permanent('recipient_unavailable', 'loop_detected'), 65),
  // Internal.
  ...codes(PROVIDER_ERROR, 18, 40, 50, 51, 52, 53, 54, 55, 56, 70, 71, 72, 73, 74, 75, 76),
  // The message centre.
  ...codes(UNREACHABLE_NUMBER, 100),
  ...codes(NETWORK_ERROR, 102, 106, 107, 111, 112, 113),
  // The register of subscribers.
  ...codes(UNREACHABLE_NUMBER, 150),
  ...codes(BARRED, 151),
  ...codes(UNSUPPORTED, 152, 154),
  ...codes(HANDSET_UNREACHABLE, 153, 158, 159),
  ...codes(NETWORK_ERROR, 155, 161, 162, 163),
  // The switch in charge of the handset.
  ...codes(HANDSET_UNREACHABLE, 200, 201, 202, 203, 210),
  ...codes(UNSUPPORTED, 204, 212),
  ...codes(BARRED, 205, 206),
  ...codes(NETWORK_ERROR, 207, 214, 215, 216),
  // Barred by the recipient or the operator.
  ...codes(BARRED, 254, 255, 256, 257),
  // Other networks.
  ...codes(UNREACHABLE_NUMBER, 300, 301, 302),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 310, 311, 312),
  ...codes(permanent('recipient_unavailable', 'refused_by_carrier'), 320, 321, 349),
  ...codes(NETWORK_ERROR, 322, 361, 362),
  ...codes(permanent('content_rejected', 'body_too_long'), 343),
  ...codes(transient('provider_throttled', 'rate_limited'), 360),
};
