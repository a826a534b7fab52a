import { accountFault, codes, permanent, transient, type CodeTable } from '../classify-error.ts';

/**
 * Error codes of SendTextMessage, their reasons, `ValidationException:` plus a field and `ResourceNotFoundException:` plus
 * a resource kind, https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_SendTextMessage.html.
 */
export const EUM_CODES: CodeTable = {
  ...codes(permanent('content_rejected', 'invalid_parameter'), 'ValidationException'),
  ...codes(permanent('invalid_recipient', 'invalid_number'), 'ValidationException:DestinationPhoneNumber'),
  ...codes(permanent('sender_rejected', 'invalid_sender'), 'ValidationException:OriginationIdentity'),
  ...codes(permanent('content_rejected', 'invalid_content'), 'ValidationException:MessageBody'),
  ...codes(
    permanent('sender_rejected', 'region_not_permitted'),
    'DESTINATION_COUNTRY_BLOCKED',
    'COUNTRY_NOT_SUPPORTED',
    'COUNTRY_NOT_ENABLED',
    'DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION',
    'INTERNATIONAL_SENDING_NOT_SUPPORTED',
    'CHANNEL_NOT_ENABLED',
  ),
  ...codes(
    permanent('sender_rejected', 'sender_unregistered'),
    'SENDER_ID_NOT_REGISTERED',
    'SENDER_ID_REQUIRES_REGISTRATION',
    'SENDER_ID_NOT_SUPPORTED',
  ),
  ...codes(
    permanent('sender_rejected', 'invalid_sender'),
    'NO_ORIGINATION_IDENTITIES_FOUND',
    'INVALID_IDENTITY_FOR_DESTINATION_COUNTRY',
    'MESSAGE_TYPE_MISMATCH',
    'NUMBER_CAPABILITIES_MISMATCH',
    'PHONE_NUMBER_NOT_IN_REGISTRATION_REGION',
    'RESOURCE_NOT_ACTIVE',
    'RESOURCE_NOT_ACCESSIBLE',
    'ResourceNotFoundException',
  ),
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 'DESTINATION_PHONE_NUMBER_OPTED_OUT'),
  ...codes(
    permanent('recipient_unavailable', 'recipient_blocked'),
    'DESTINATION_PHONE_NUMBER_BLOCKED_BY_PROTECT_NUMBER_OVERRIDE',
  ),
  ...codes(permanent('sender_rejected', 'trial_restriction'), 'DESTINATION_PHONE_NUMBER_NOT_VERIFIED'),
  // Above the price that the sender's rules allow for one message.
  ...codes(permanent('sender_rejected', 'price_limit'), 'PRICE_OVER_THRESHOLD'),
  ...codes(permanent('unknown', 'conflict'), 'ConflictException'),
  ...codes(accountFault('configuration_set_missing'), 'ResourceNotFoundException:configuration-set'),
  ...codes(accountFault('insufficient_credit'), 'MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT'),
  ...codes(accountFault('account_suspended'), 'ACCOUNT_DISABLED', 'INSUFFICIENT_ACCOUNT_REPUTATION'),
  ...codes(transient('provider_throttled', 'daily_cap_reached'), 'DAILY_DESTINATION_CALL_LIMIT'),
  ...codes(transient('provider_throttled', 'quota_exceeded'), 'ServiceQuotaExceededException'),
};

/** Error codes of Publish, https://docs.aws.amazon.com/sns/latest/api/API_Publish.html. */
export const SNS_CODES: CodeTable = {
  ...codes(
    permanent('content_rejected', 'invalid_parameter'),
    'InvalidParameter',
    'InvalidParameterException',
    'ParameterValueInvalid',
    'InvalidParameterValue',
    'ValidationError',
    'ValidationException',
  ),
  ...codes(permanent('recipient_unavailable', 'recipient_opted_out'), 'OptedOut', 'OptedOutException'),
};

/**
 * Publish says the same of an invalid number and of a valid one that the account's region cannot send to, so the recipient must not
 * be suppressed for it.
 */
export const NUMBER_REFUSED = permanent('invalid_recipient', 'address_refused');
export const OPTED_OUT = permanent('recipient_unavailable', 'recipient_opted_out');

/**
 * Event types that report a text as undelivered,
 * https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-types.html.
 */
export const UNDELIVERED_EVENTS: CodeTable = {
  TEXT_INVALID: permanent('invalid_recipient', 'invalid_number'),
  TEXT_INVALID_MESSAGE: permanent('content_rejected', 'invalid_content'),
  TEXT_UNREACHABLE: transient('recipient_unavailable', 'handset_unreachable'),
  TEXT_CARRIER_UNREACHABLE: transient('provider_unavailable', 'carrier_unreachable'),
  TEXT_BLOCKED: permanent('recipient_unavailable', 'recipient_blocked'),
  TEXT_CARRIER_BLOCKED: permanent('content_rejected', 'blocked'),
  TEXT_PROTECT_BLOCKED: permanent('sender_rejected', 'region_not_permitted'),
  TEXT_SPAM: permanent('content_rejected', 'blocked'),
  TEXT_TTL_EXPIRED: permanent('recipient_unavailable', 'validity_expired'),
};
