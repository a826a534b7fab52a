import { accountFault, codes, permanent, transient, type CodeTable } from '../classify-error.ts';

/** `reason`, https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns. */
export const APNS_REASONS: CodeTable = {
  ...codes(permanent('invalid_recipient', 'unregistered'), 'Unregistered', 'ExpiredToken'),
  ...codes(permanent('invalid_recipient', 'invalid_token'), 'BadDeviceToken', 'MissingDeviceToken'),
  ...codes(permanent('invalid_recipient', 'token_of_other_app'), 'DeviceTokenNotForTopic'),
  ...codes(permanent('content_rejected', 'payload_too_large'), 'PayloadTooLarge'),
  ...codes(permanent('content_rejected', 'invalid_collapse_key'), 'BadCollapseId'),
  ...codes(
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
  ...codes(accountFault('topic_not_allowed'), 'BadTopic', 'MissingTopic', 'TopicDisallowed'),
  ...codes(
    accountFault('authentication_failed'),
    'BadCertificate',
    'BadCertificateEnvironment',
    'ExpiredProviderToken',
    'InvalidProviderToken',
    'MissingProviderToken',
    'UnrelatedKeyIdInToken',
    'BadEnvironmentKeyIdInToken',
    // How several public clients have seen APNs itself write the code before.
    'BadEnvironmentKeyInToken',
  ),
  ...codes(accountFault('forbidden'), 'Forbidden'),
  // Apple counts the requests to one device: other devices can be reached.
  ...codes(transient('recipient_unavailable', 'recipient_rate_limited'), 'TooManyRequests'),
  ...codes(transient('provider_throttled', 'too_many_token_updates'), 'TooManyProviderTokenUpdates'),
  ...codes(
    transient('provider_unavailable', 'provider_error'),
    'InternalServerError',
    'ServiceUnavailable',
    'Shutdown',
    'IdleTimeout',
  ),
};
