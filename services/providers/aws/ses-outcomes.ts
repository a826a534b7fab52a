import {
  accountFault,
  codes,
  permanent,
  transient,
  type CodeTable,
  type ErrorMeaning,
} from '../classify-error.ts';

/** A MessageRejected can say so too, by its text alone. */
export const SENDING_PAUSED = accountFault('sending_paused');

/** Errors of SendEmail, https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html. */
export const SES_CODES: CodeTable = {
  ...codes(
    permanent('content_rejected', 'invalid_parameter'),
    'BadRequestException',
    'ValidationException',
    'InvalidParameterValue',
  ),
  MessageRejected: permanent('content_rejected', 'blocked'),
  MailFromDomainNotVerifiedException: accountFault('sender_unverified'),
  // Each mail names its own sender, so the account's other mails are accepted.
  FromEmailAddressNotVerifiedException: permanent('sender_rejected', 'sender_unverified'),
  AccountSuspendedException: accountFault('account_suspended'),
  ...codes(SENDING_PAUSED, 'SendingPausedException', 'ConfigurationSetSendingPausedException'),
  ...codes(
    accountFault('configuration_set_missing'),
    'NotFoundException',
    'ConfigurationSetDoesNotExistException',
  ),
  LimitExceededException: transient('provider_throttled', 'quota_exceeded'),
};

/** A MessageRejected about an identity; in the SES sandbox that identity can be the recipient. */
export const UNVERIFIED_IDENTITY = permanent('sender_rejected', 'sender_unverified');
/** SES takes only ASCII before the `@`. */
export const UNSUPPORTED_ADDRESSES = {
  from: permanent('sender_rejected', 'invalid_sender'),
  replyTo: permanent('sender_rejected', 'invalid_reply_to'),
  to: permanent('invalid_recipient', 'unsupported_address'),
} as const;
/** SES does not say whether the sender's or the recipient's address is meant, so the recipient is not suppressed. */
export const ADDRESS_REFUSED = permanent('invalid_recipient', 'address_refused');

/**
 * `bounceSubType` values that are more specific than the receiving server's status,
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html#event-publishing-retrieving-sns-contents-bounce-object.
 */
export const BOUNCES = new Map<string, ErrorMeaning>(
  Object.entries({
    NoEmail: permanent('invalid_recipient', 'invalid_address'),
    Suppressed: permanent('invalid_recipient', 'bounced_before'),
    OnAccountSuppressionList: permanent('invalid_recipient', 'bounced_before'),
    UnsubscribedRecipient: permanent('recipient_unavailable', 'recipient_opted_out'),
    MailboxFull: transient('recipient_unavailable', 'mailbox_full'),
    MessageTooLarge: permanent('content_rejected', 'payload_too_large'),
    ContentRejected: permanent('content_rejected', 'blocked'),
    AttachmentRejected: permanent('content_rejected', 'invalid_attachment'),
    CustomTimeoutExceeded: permanent('recipient_unavailable', 'validity_expired'),
  }),
);

export const REJECTED = permanent('content_rejected', 'blocked');
export const NOT_RENDERED = permanent('content_rejected', 'rendering_failed');
/** SES sends nothing to a recipient who has complained before. */
export const COMPLAINED_BEFORE = permanent('recipient_unavailable', 'recipient_opted_out');
