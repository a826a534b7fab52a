import { accountFault, permanent, transient, type CodeTable, type ErrorMeaning } from '../classify-error.ts';

/** `reason`, https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns. */
export const APNS_REASONS: CodeTable = {
  ...each(permanent('invalid_recipient', 'unregistered'), 'Unregistered', 'ExpiredToken'),
  ...each(permanent('invalid_recipient', 'invalid_token'), 'BadDeviceToken', 'MissingDeviceToken'),
  ...each(permanent('invalid_recipient', 'token_of_other_app'), 'DeviceTokenNotForTopic'),
  ...each(permanent('content_rejected', 'payload_too_large'), 'PayloadTooLarge'),
  ...each(permanent('content_rejected', 'invalid_collapse_key'), 'BadCollapseId'),
  ...each(
    permanent('content_rejected', 'invalid_parameter'),
    'BadExpirationDate',
    'BadMessageId',
    'BadPriority',
    'DuplicateHeaders',
    'InvalidPushType',
    'PayloadEmpty',
    'BadPath',
    'MethodNotAllowed',
  ),
  ...each(accountFault('topic_not_allowed'), 'BadTopic', 'MissingTopic', 'TopicDisallowed'),
  ...each(
    accountFault('authentication_failed'),
    'BadCertificate',
    'BadCertificateEnvironment',
    'ExpiredProviderToken',
    'InvalidProviderToken',
    'MissingProviderToken',
    'UnrelatedKeyIdInToken',
    'BadEnvironmentKeyIdInToken',
  ),
  ...each(accountFault('forbidden'), 'Forbidden'),
  // Apple counts the requests to one device: other devices can be reached.
  ...each(transient('recipient_unavailable', 'recipient_rate_limited'), 'TooManyRequests'),
  ...each(transient('provider_throttled', 'too_many_token_updates'), 'TooManyProviderTokenUpdates'),
  ...each(
    transient('provider_unavailable', 'provider_error'),
    'InternalServerError',
    'ServiceUnavailable',
    'Shutdown',
    'IdleTimeout',
  ),
};

function each(meaning: ErrorMeaning, ...reasons: readonly string[]): CodeTable {
  return Object.fromEntries(reasons.map((reason) => [reason, meaning]));
}
