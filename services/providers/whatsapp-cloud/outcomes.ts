import { accountFault, codes, permanent, transient, type CodeTable } from '../classify-error.ts';

/** Too many messages from one business number to one recipient. */
export const PAIR_LIMIT = 131056;
/** Meta permits about one message to a recipient in six seconds. */
export const PAIR_LIMIT_WAIT_MS = 6_000;
/** `error_subcode` of a 100: the phone number does not exist, or the token has no access to it. */
export const NO_SUCH_OBJECT = 33;

/**
 * Error codes, https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes, and those of the
 * Graph API, https://developers.facebook.com/docs/graph-api/overview/rate-limiting and
 * https://developers.facebook.com/docs/graph-api/guides/error-handling. They take precedence over the HTTP status.
 */
export const WHATSAPP_CODES: CodeTable = {
  ...codes(transient('provider_unavailable', 'provider_error'), 1, 2, 131000, 131016, 133016),
  ...codes(transient('provider_unavailable', 'maintenance'), 131057),
  ...codes(transient('provider_throttled', 'rate_limited'), 4, 17, 32, 341, 613, 80007, 80008, 130429),
  // The limit of messages to one recipient: others can be reached.
  ...codes(transient('recipient_unavailable', 'recipient_rate_limited'), PAIR_LIMIT),
  ...codes(transient('provider_throttled', 'quality_limited'), 131048, 131064),
  ...codes(accountFault('authentication_failed'), 0, 102, 104, 190),
  ...codes(accountFault('forbidden'), 3, 10, 131005),
  ...Object.fromEntries(
    Array.from({ length: 100 }, (_, index) => [String(200 + index), accountFault('forbidden')]),
  ),
  ...codes(accountFault('account_suspended'), 368, 131031),
  ...codes(accountFault('terms_not_accepted'), 134011),
  ...codes(accountFault('sender_unregistered'), 33, 803, 131037, 131045, 133010),
  ...codes(accountFault('insufficient_credit'), 131042),
  // No reason to suppress the recipient: Meta gives the same code where the number has no WhatsApp, where the client is too
  // old and where the recipient has not accepted the current terms.
  ...codes(permanent('invalid_recipient', 'undeliverable'), 131026),
  ...codes(permanent('invalid_recipient', 'recipient_not_allowed'), 131030),
  ...codes(permanent('invalid_recipient', 'recipient_is_sender'), 131021),
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 131050),
  // The business itself has blocked the recipient.
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 130403),
  ...codes(permanent('recipient_unavailable', 'message_expired'), 131043),
  ...codes(permanent('recipient_unavailable', 'not_delivered_by_choice'), 130472, 131049),
  // Meta restricts this business in the recipient's country.
  ...codes(permanent('sender_rejected', 'region_not_permitted'), 130497),
  // Of marketing messages alone: the business sends them by another API of Meta.
  ...codes(permanent('sender_rejected', 'marketing_disabled'), 131063),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 100, 131008, 131009, 135000),
  ...codes(permanent('content_rejected', 'unsupported_type'), 131051),
  ...codes(permanent('content_rejected', 'invalid_media'), 131052, 131053),
  ...codes(permanent('content_rejected', 'outside_window'), 131047),
  ...codes(
    permanent('content_rejected', 'invalid_template'),
    132000,
    132001,
    132005,
    132007,
    132008,
    132012,
    132018,
    132068,
  ),
  ...codes(permanent('content_rejected', 'template_unavailable'), 132015, 132016),
  // The form behind a template's button may be sent ten times an hour.
  ...codes(transient('content_rejected', 'form_throttled'), 132069),
};
