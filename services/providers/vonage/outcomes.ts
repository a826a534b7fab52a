import {
  accountFault,
  codes,
  permanent,
  transient,
  type CodeTable,
  type ErrorMeaning,
} from '../classify-error.ts';

/** `status` of the SMS API, https://developer.vonage.com/en/api-errors/sms. */
export const SMS_CODES: CodeTable = {
  ...codes(transient('provider_throttled', 'rate_limited'), 1, 10),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 2, 3),
  ...codes(accountFault('authentication_failed'), 4, 14, 32),
  ...codes(transient('provider_unavailable', 'provider_error'), 5),
  ...codes(permanent('invalid_recipient', 'invalid_number'), 33),
  // Vonage has no route to the number; another provider may have one.
  ...codes(permanent('recipient_unavailable', 'unroutable'), 6),
  // On a list of Vonage; an opt-out is reported by a receipt with the code 9.
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 7),
  ...codes(accountFault('account_suspended'), 8),
  ...codes(accountFault('insufficient_credit'), 9),
  ...codes(accountFault('forbidden'), 11),
  ...codes(permanent('content_rejected', 'body_too_long'), 12),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 15),
  ...codes(permanent('content_rejected', 'blocked'), 17),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 22),
  // The address for receipts comes from this installation's own settings: no message is at fault.
  ...codes(accountFault('callback_url_refused'), 23),
  ...codes(permanent('sender_rejected', 'trial_restriction'), 29),
};

/** `err-code` in receipts of the SMS API, https://developer.vonage.com/en/messaging/sms/guides/delivery-receipts. */
export const SMS_RECEIPT_CODES: CodeTable = {
  ...codes(permanent('recipient_unavailable', 'handset_unreachable'), 2, 7, 8),
  ...codes(permanent('invalid_recipient', 'unreachable_number'), 3, 12),
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 4, 13, 14),
  // 99 is a general error, mostly on the route of the message.
  ...codes(permanent('provider_unavailable', 'provider_error'), 5, 16, 99),
  ...codes(permanent('content_rejected', 'blocked'), 6),
  ...codes(permanent('content_rejected', 'invalid_content'), 10),
  // Vonage has no route to the number; another provider may have one.
  ...codes(permanent('recipient_unavailable', 'unroutable'), 11),
  ...codes(permanent('recipient_unavailable', 'recipient_credit'), 15),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 39),
  // 53: the sender has not registered the recipient's consent in India, as 50 and 51 are about entity and header.
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 50, 51, 53),
  ...codes(permanent('content_rejected', 'blocked'), 52, 54),
  // Vonage calls 9 an illegal number and explains that its user asked for no messages from this service.
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 9),
};

/**
 * Last parts of `type` in errors and receipts of the Messages API, https://developer.vonage.com/en/api-errors/messages and
 * https://developer.vonage.com/en/api-errors.
 */
export const MESSAGES_CODES: CodeTable = {
  ...codes(transient('provider_throttled', 'rate_limited'), 1000, 1241, 1472, 'throttled'),
  ...codes(transient('provider_throttled', 'daily_cap_reached'), 1460),
  ...codes(
    transient('provider_unavailable', 'provider_error'),
    1030,
    1100,
    1230,
    1330,
    1331,
    'internal-error',
  ),
  ...codes(transient('recipient_unavailable', 'handset_unreachable'), 1180, 1220),
  ...codes(accountFault('authentication_failed'), 'unauthorized', 'invalid-api-key', 'invalid-signature'),
  ...codes(accountFault('authentication_failed'), 'jwt-expired', 'jwt-revoked'),
  ...codes(accountFault('account_suspended'), 1060, 'account-suspended', 'application-suspended'),
  ...codes(accountFault('forbidden'), 1080, 'forbidden', 'unprovisioned'),
  // The address or the country that this installation calls from.
  ...codes(accountFault('forbidden'), 'invalid-ip', 'unavailable-legal'),
  ...codes(accountFault('sender_unregistered'), 1370),
  ...codes(accountFault('insufficient_credit'), 1070, 'low-balance'),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 1010, 1020, 1021, 1150, 'invalid-params'),
  ...codes(permanent('content_rejected', 'invalid_parameter'), 1410, 1450, 1451),
  ...codes(permanent('content_rejected', 'unsupported_type'), 1400, 1440),
  ...codes(permanent('content_rejected', 'invalid_template'), 1022),
  ...codes(permanent('invalid_recipient', 'invalid_number'), 1170, 1430),
  ...codes(permanent('recipient_unavailable', 'unroutable'), 1040, 1250, 1251),
  ...codes(permanent('recipient_unavailable', 'recipient_blocked'), 1050, 1200, 1270, 1280),
  ...codes(permanent('content_rejected', 'body_too_long'), 1090),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 1120, 1242, 1420),
  ...codes(permanent('sender_rejected', 'sender_blocked'), 1476),
  // As 50, 51 and 53 in a receipt of the SMS API; 1484 is about the sender's registration too.
  ...codes(permanent('sender_rejected', 'sender_unregistered'), 1480, 1481, 1483, 1484),
  // Vonage's protection against fraud, as the account has set it up.
  ...codes(permanent('sender_rejected', 'fraud_suspected'), 1470, 1473, 2001),
  ...codes(permanent('sender_rejected', 'region_not_permitted'), 1474, 1475),
  ...codes(permanent('content_rejected', 'invalid_ttl'), 1130),
  ...codes(permanent('sender_rejected', 'forbidden'), 1140),
  ...codes(permanent('sender_rejected', 'trial_restriction'), 1160),
  ...codes(permanent('invalid_recipient', 'unreachable_number'), 1190, 1260, 1310),
  ...codes(permanent('content_rejected', 'blocked'), 1210, 1282, 1482),
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 1240),
  ...codes(permanent('recipient_unavailable', 'recipient_credit'), 1290),
  ...codes(permanent('invalid_recipient', 'unknown_recipient'), 1300),
  // Marketing of WhatsApp that Meta chose not to deliver.
  ...codes(permanent('recipient_unavailable', 'not_delivered_by_choice'), 1461),
  ...codes(permanent('unknown', 'already_sent'), 1320),
  // Not all parts of a long text were reported on.
  ...codes(permanent('unknown', 'delivery_unknown'), 1490),
  ...codes(permanent('content_rejected', 'outside_window'), 1340),
  ...codes(permanent('recipient_unavailable', 'validity_expired'), 1360),
  ...codes(permanent('content_rejected', 'invalid_media'), 1380, 1381, 1382),
};

/** Meanings of a fault by the parameter that Vonage names. */
const PARAMETERS: readonly (readonly [RegExp, ErrorMeaning])[] = [
  [/^to$/, permanent('invalid_recipient', 'invalid_number')],
  [/^from$/, permanent('sender_rejected', 'invalid_sender')],
  [/template|custom|locale/, permanent('content_rejected', 'invalid_template')],
  [/^(?:image|audio|video|file|sticker)\b/, permanent('content_rejected', 'invalid_media')],
];

/** @param names names of the parameters that were reported as faulty. */
export function meaningOfParameters(names: readonly string[]): ErrorMeaning | undefined {
  return PARAMETERS.find(([pattern]) => names.some((name) => pattern.test(name)))?.[1];
}
