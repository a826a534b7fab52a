import {
  accountFault,
  codes,
  permanent,
  transient,
  type CodeTable,
  type ErrorMeaning,
} from '../classify-error.ts';
import { DLT_CODES } from './dlt-codes.ts';

/** The message has the id of an earlier message that was accepted. */
export const DUPLICATE = 23;

/** The address for receipts comes from this installation's own settings: no message is at fault. */
const CALLBACK_URL_REFUSED = accountFault('callback_url_refused');

/** Status ids, https://www.infobip.com/docs/essentials/response-status-and-error-codes#api-status-codes. */
export const STATUS_CODES: CodeTable = {
  ...codes(permanent('recipient_unavailable', 'operator_rejected'), 4),
  ...codes(permanent('recipient_unavailable', 'handset_unreachable'), 9),
  ...codes(permanent('recipient_unavailable', 'validity_expired'), 15),
  ...codes(permanent('unknown', 'delivery_unknown'), 22, 29),
  ...codes(permanent('sender_rejected', 'region_not_permitted'), 6),
  ...codes(permanent('invalid_recipient', 'invalid_number'), 8, 51, 52),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 11),
  ...codes(accountFault('insufficient_credit'), 12, 17),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 13),
  // 10: the operator's register of numbers that are not to be disturbed; the number did not opt out of this sender's messages.
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 10, 14),
  ...codes(transient('provider_unavailable', 'route_unavailable'), 16),
  ...codes(permanent('sender_rejected', 'trial_restriction'), 18),
  ...codes(permanent('sender_rejected', 'route_not_available'), 19),
  // An hourly limit on messages to one number, regardless of other recipients.
  ...codes(transient('recipient_unavailable', 'recipient_rate_limited'), 20),
  ...codes(transient('provider_unavailable', 'provider_error'), 21),
  ...codes(permanent('content_rejected', 'invalid_content'), 24),
  ...codes(CALLBACK_URL_REFUSED, 56),
  ...codes(permanent('content_rejected', 'blocked'), 87),
  // Invalid, or the platform is unavailable for now.
  ...codes(transient('provider_unavailable', 'rejected_by_platform'), 100),
  ...codes(permanent('content_rejected', 'body_too_long'), 25),
};

const UNREACHABLE = permanent('recipient_unavailable', 'handset_unreachable');
/** Of an operator's network, or between it and Infobip: says nothing about the recipient. */
const NETWORK_FAULT = permanent('provider_unavailable', 'provider_error');

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/** Error ids in a report, https://www.infobip.com/docs/developer-resources/api-fundamentals/error-code-reference. */
export const ERROR_CODES: CodeTable = {
  ...codes(permanent('invalid_recipient', 'unknown_recipient'), 1, 3041),
  ...codes(permanent('invalid_recipient', 'unreachable_number'), 9, 10, 11, 352, 568, 629),
  ...codes(UNREACHABLE, 2, 5, 6, 7, 8, 12, 13, 21, 27, 31, 32, 33, ...range(256, 262), 502, 569, 628, 2048),
  // 2050: the operator's register of numbers that are not to be disturbed.
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 15, 560, 565, 566, 2049, 2050, 2052),
  ...codes(permanent('recipient_unavailable', 'validity_expired'), 811, 4098, 4100, 4101),
  ...codes(permanent('recipient_unavailable', 'recipient_credit'), 581),
  // 5492, 7280: the same message again.
  ...codes(permanent('recipient_unavailable', 'recipient_rate_limited'), 4103, 4104, 5492, 7280),
  ...codes(permanent('recipient_unavailable', 'unroutable'), 345),
  ...codes(NETWORK_FAULT, 20, 24, 34, 35, 36, 51, 71, 500, 501, 503, 504, 507, 508, 509),
  ...codes(NETWORK_FAULT, 630, 631, 4097, 4102),
  ...codes(NETWORK_FAULT, ...range(1024, 1031), ...range(1152, 1166), ...range(1281, 1284)),
  ...codes(NETWORK_FAULT, ...range(1536, 1541), ...range(1792, 1796)),
  ...codes(permanent('unknown', 'delivery_unknown'), 815, 7052),
  ...codes(permanent('provider_throttled', 'rate_limited'), 541),
  ...codes(permanent('provider_throttled', 'daily_cap_reached'), 542, 609, 4202),
  ...codes(permanent('content_rejected', 'body_too_long'), 355),
  ...codes(permanent('content_rejected', 'invalid_content'), 4096),
  ...codes(permanent('content_rejected', 'blocked'), 561, 604, 607, 608, 2051),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 368),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 375, 564, 574, 2053),
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 488, 562, 563, 571, 572, 594),
  ...codes(permanent('sender_rejected', 'trial_restriction'), 577, 578, 579, 580),
  ...codes(permanent('sender_rejected', 'region_not_permitted'), 592),
  ...codes(permanent('sender_rejected', 'route_not_available'), 597),
  ...codes(permanent('sender_rejected', 'sender_not_enabled'), 601),
  ...codes(accountFault('insufficient_credit'), 4099),
  ...codes(accountFault('forbidden'), 433),
  // Also of subscribers without credit, or who may not receive from short codes: no reason to suppress the recipient.
  ...codes(permanent('recipient_unavailable', 'undeliverable'), 351),
  // 573: the recipient had the operator block this short code; 603: the recipient replied STOP to this number.
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 573, 603),
  // WhatsApp codes.
  ...codes(permanent('invalid_recipient', 'undeliverable'), 7002, 7020, 7025, 7201),
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 7003, 7030),
  ...codes(accountFault('authentication_failed'), 7004),
  ...codes(accountFault('forbidden'), 7005),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 7006, 7018),
  ...codes(permanent('content_rejected', 'rejected_by_policy'), 7007, 7024),
  ...codes(permanent('content_rejected', 'invalid_template'), 7008, 7009, 7031),
  ...codes(permanent('content_rejected', 'template_unavailable'), 7036, 7037),
  ...codes(permanent('content_rejected', 'outside_window'), 7010),
  ...codes(accountFault('account_suspended'), 7011),
  ...codes(permanent('content_rejected', 'invalid_media'), 7013, 7014, 7015, 7022),
  ...codes(permanent('provider_throttled', 'quality_limited'), 7016),
  ...codes(permanent('provider_throttled', 'rate_limited'), 7017, 7026),
  ...codes(accountFault('insufficient_credit'), 7019),
  ...codes(permanent('content_rejected', 'blocked'), 7027),
  ...codes(permanent('recipient_unavailable', 'not_delivered_by_choice'), 7032),
  // The recipient has switched off this business's marketing messages in WhatsApp.
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 7033),
  ...codes(accountFault('sender_unregistered'), 7001, 7034),
  ...codes(permanent('sender_rejected', 'sender_not_enabled'), 7021, 7038, 7081, 7083, 7084),
  ...codes(permanent('provider_unavailable', 'provider_error'), 7012, 7050, 7051, 7080, 7082),
  ...DLT_CODES,
};

/** Codes of a request that was refused as a whole, https://www.infobip.com/docs/essentials/response-status-and-error-codes. */
export const REQUEST_CODES: CodeTable = {
  UNAUTHORIZED: accountFault('authentication_failed'),
  E401: accountFault('authentication_failed'),
  FORBIDDEN: accountFault('forbidden'),
  E403: accountFault('forbidden'),
  TOO_MANY_REQUESTS: transient('provider_throttled', 'rate_limited'),
  E429: transient('provider_throttled', 'rate_limited'),
  GENERAL_ERROR: transient('provider_unavailable', 'provider_error'),
  E500: transient('provider_unavailable', 'provider_error'),
};

/** The meaning of a refused request, by the last names in the path of the field that Infobip reports. */
const FIELDS: readonly (readonly [RegExp, ErrorMeaning])[] = [
  [/(?:^|\.)(?:to|destinations?)(?:\[\d+\])?$/i, permanent('invalid_recipient', 'invalid_number')],
  [/(?:^|\.)(?:from|sender)$/i, permanent('sender_rejected', 'invalid_sender')],
  [/template|placeholder|language|buttons/i, permanent('content_rejected', 'invalid_template')],
  [/mediaurl|filename|caption/i, permanent('content_rejected', 'invalid_media')],
  [/(?:^|\.)(?:content|text)(?:\.|$)/i, permanent('content_rejected', 'invalid_content')],
  [/(?:^|\.)(?:notifyurl|webhooks\.delivery(?:\.url)?)$/i, CALLBACK_URL_REFUSED],
];

/** @param paths paths of the request fields that were reported as faulty. */
export function meaningOfFields(paths: readonly string[]): ErrorMeaning | undefined {
  return FIELDS.find(([pattern]) => paths.some((path) => pattern.test(path)))?.[1];
}
