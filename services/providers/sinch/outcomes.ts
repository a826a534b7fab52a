import { accountFault, permanent, transient, type CodeTable, type ErrorMeaning } from '../classify-error.ts';
import { SINCH_NETWORK_CODES } from './network-codes.ts';

/** Codes of refused requests, https://developers.sinch.com/docs/sms/api-reference/status-codes. */
export const SINCH_ERRORS: CodeTable = {
  syntax_invalid_json: permanent('unknown', 'invalid_request'),
  syntax_invalid_parameter_format: permanent('unknown', 'invalid_request'),
  syntax_constraint_violation: permanent('unknown', 'invalid_request'),
  unknown_group: permanent('invalid_recipient', 'invalid_number'),
  // The number is of a kind that cannot be reached in its region. Sinch's table spells the code in two ways.
  illegal_number_type: permanent('invalid_recipient', 'unreachable_number'),
  llegal_number_type: permanent('invalid_recipient', 'unreachable_number'),
  unknown_campaign: permanent('sender_rejected', 'sender_unregistered'),
  missing_callback_url: accountFault('missing_callback_url'),
  blocked_account: accountFault('account_suspended'),
};

/**
 * Codes of delivery reports, https://developers.sinch.com/docs/sms/api-reference/sms/tag/Delivery-reports: those of the
 * networks and the API's own. 414 to 418 are about MMS.
 */
export const SINCH_CODES: CodeTable = {
  ...SINCH_NETWORK_CODES,
  402: permanent('recipient_unavailable', 'unroutable'),
  403: transient('provider_unavailable', 'provider_error'),
  404: transient('provider_unavailable', 'temporary_failure'),
  405: permanent('content_rejected', 'unmatched_parameter'),
  406: permanent('recipient_unavailable', 'message_expired'),
  407: permanent('unknown', 'canceled'),
  408: permanent('recipient_unavailable', 'refused_by_carrier'),
  410: permanent('sender_rejected', 'missing_sender'),
  411: permanent('content_rejected', 'body_too_long'),
  412: permanent('sender_rejected', 'region_not_permitted'),
  413: accountFault('account_suspended'),
};

/** The meaning of a final status with an unknown code. */
export const SINCH_STATUSES: Readonly<Record<string, ErrorMeaning>> = {
  Deleted: permanent('recipient_unavailable', 'undeliverable'),
  Rejected: permanent('recipient_unavailable', 'refused_by_carrier'),
  Expired: permanent('recipient_unavailable', 'message_expired'),
  Cancelled: permanent('unknown', 'canceled'),
};
