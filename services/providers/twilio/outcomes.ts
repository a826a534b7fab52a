import { accountFault, permanent, transient, type CodeTable, type ErrorMeaning } from '../classify-error.ts';

/** Error codes of the Messages resource, https://www.twilio.com/docs/api/errors. Codes from 63000 on are for WhatsApp. */
export const TWILIO_CODES: CodeTable = {
  ...each(accountFault('authentication_failed'), 20003, 20008, 20403, 63001),
  ...each(accountFault('forbidden'), 63020),
  ...each(accountFault('sender_unregistered'), 63007),
  ...each(transient('provider_throttled', 'rate_limited'), 20429, 14107, 30022, 63017, 63018),
  ...each(transient('provider_throttled', 'sender_queue_full'), 21611, 30001),
  ...each(transient('provider_throttled', 'daily_cap_reached'), 30023, 30027, 63038),
  ...each(
    transient('provider_unavailable', 'provider_error'),
    20500,
    20503,
    30008,
    30017,
    30410,
    63009,
    63010,
    63012,
  ),
  ...each(transient('provider_unavailable', 'maintenance'), 21730),
  ...each(transient('provider_unavailable', 'media_unavailable'), 63019),
  ...each(permanent('invalid_recipient', 'invalid_number'), 21211, 21217, 21265),
  ...each(permanent('invalid_recipient', 'unreachable_number'), 21614, 21635, 30005, 30006),
  // Not confirmed to say that the number does not exist, so the recipient is not suppressed for them.
  ...each(permanent('invalid_recipient', 'unreachable_number'), 21267, 21268, 21401, 21421),
  ...each(permanent('invalid_recipient', 'unknown_recipient'), 63003),
  // The recipient may have an old client, or not have accepted the current terms: no reason to suppress the recipient.
  ...each(permanent('invalid_recipient', 'undeliverable'), 63024),
  ...each(permanent('invalid_recipient', 'recipient_not_allowed'), 63015),
  ...each(permanent('recipient_unavailable', 'recipient_opted_out'), 21610),
  ...each(permanent('recipient_unavailable', 'not_delivered_by_choice'), 63032, 63049),
  ...each(transient('recipient_unavailable', 'handset_unreachable'), 30003),
  ...each(permanent('sender_rejected', 'invalid_sender'), 21212, 21601, 21606, 21616, 21659, 21660, 21661),
  // The recipient's country or network takes no messages from this sender, or it is the sender: another account may reach it.
  ...each(permanent('sender_rejected', 'route_not_available'), 21266, 21612),
  ...each(permanent('sender_rejected', 'region_not_permitted'), 21408),
  ...each(permanent('sender_rejected', 'trial_restriction'), 21607, 21608),
  ...each(permanent('sender_rejected', 'invalid_messaging_service'), 21701, 21702, 21703, 21704, 21705),
  ...each(accountFault('account_suspended'), 30002),
  ...each(permanent('sender_rejected', 'sender_unregistered'), 30018, 30024, 30032, 30034),
  ...each(permanent('content_rejected', 'empty_body'), 21602),
  ...each(permanent('content_rejected', 'body_too_long'), 21617, 30019),
  ...each(permanent('content_rejected', 'invalid_media'), 21620),
  ...each(permanent('content_rejected', 'invalid_template_variables'), 21656),
  ...each(permanent('content_rejected', 'blocked'), 30004, 30007, 63013),
  ...each(permanent('content_rejected', 'outside_window'), 63016),
  ...each(permanent('content_rejected', 'invalid_content'), 63005, 63021),
  ...each(permanent('content_rejected', 'invalid_template'), 63027, 63028),
};

function each(meaning: ErrorMeaning, ...codes: readonly number[]): CodeTable {
  return Object.fromEntries(codes.map((code) => [String(code), meaning]));
}
