import { accountFault, permanent, transient, type CodeTable } from '../classify-error.ts';

/** Codes of refused requests, https://developers.messagebird.com/api/#api-errors. */
export const MESSAGEBIRD_ERRORS: CodeTable = {
  2: accountFault('authentication_failed'),
  9: permanent('unknown', 'invalid_request'),
  10: permanent('unknown', 'invalid_request'),
  20: permanent('unknown', 'not_found'),
  21: permanent('unknown', 'invalid_request'),
  25: accountFault('insufficient_credit'),
  98: transient('provider_unavailable', 'provider_error'),
  99: transient('provider_unavailable', 'provider_error'),
};

/** Meanings of a faulty parameter; codes 9 and 10 name the parameter. */
export const MESSAGEBIRD_PARAMETERS: CodeTable = {
  recipient: permanent('invalid_recipient', 'invalid_number'),
  recipients: permanent('invalid_recipient', 'invalid_number'),
  originator: permanent('sender_rejected', 'invalid_sender'),
  body: permanent('content_rejected', 'invalid_message'),
};

/** Text of code 9 for any recipient but the account's owner, as long as the account has test credits. */
export const TEST_PERIOD_TEXT = /test period|your own number/i;
export const TRIAL_RESTRICTION = permanent('sender_rejected', 'trial_restriction');

const HANDSET_UNREACHABLE = transient('recipient_unavailable', 'handset_unreachable');
const UNREACHABLE_NUMBER = permanent('invalid_recipient', 'unreachable_number');
const UNSUPPORTED = permanent('recipient_unavailable', 'unsupported_recipient');
const REFUSED = permanent('recipient_unavailable', 'refused_by_carrier');
const EXPIRED = permanent('recipient_unavailable', 'message_expired');
const OPTED_OUT = permanent('recipient_unavailable', 'recipient_opted_out');
const NETWORK_ERROR = transient('provider_unavailable', 'network_error');

/**
 * `statusErrorCode` of reports: GSM MAP codes, and MessageBird's own codes from 100 on,
 * https://docs.bird.com/api/channels-api/message-status-and-interactions/message-failure-sources/sms-platform-extended-error-codes.
 */
export const MESSAGEBIRD_CODES: CodeTable = {
  1: UNREACHABLE_NUMBER,
  2: UNREACHABLE_NUMBER,
  3: UNREACHABLE_NUMBER,
  5: UNREACHABLE_NUMBER,
  6: HANDSET_UNREACHABLE,
  9: UNREACHABLE_NUMBER,
  11: UNSUPPORTED,
  12: UNSUPPORTED,
  13: REFUSED,
  21: UNSUPPORTED,
  27: HANDSET_UNREACHABLE,
  31: HANDSET_UNREACHABLE,
  33: HANDSET_UNREACHABLE,
  34: NETWORK_ERROR,
  103: OPTED_OUT,
  104: permanent('sender_rejected', 'sender_unregistered'),
};

/**
 * `statusReason` of reports: less specific than a code but present more often,
 * https://docs.bird.com/connectivity-platform/troubleshooting/sms-errors-and-error-codes.
 */
export const MESSAGEBIRD_REASONS: CodeTable = {
  'incorrect number': permanent('invalid_recipient', 'invalid_number'),
  'unknown subscriber': UNREACHABLE_NUMBER,
  'unavailable subscriber': HANDSET_UNREACHABLE,
  'dlr not received': EXPIRED,
  expired: EXPIRED,
  'opted out': OPTED_OUT,
  'received network error': NETWORK_ERROR,
  'insufficient balance': accountFault('insufficient_credit'),
  'carrier rejected': REFUSED,
  'capacity limit reached': transient('provider_throttled', 'rate_limited'),
};
