import { accountFault, gatewayTimeout, permanent, transient, type CodeTable } from '../classify-error.ts';

/**
 * `details[].errorCode` of an FcmError, or else the error's `status`,
 * https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode.
 */
export const FCM_CODES: CodeTable = {
  UNREGISTERED: permanent('invalid_recipient', 'unregistered'),
  // The project was not found: for a device that is not registered, FCM adds the code UNREGISTERED.
  NOT_FOUND: accountFault('project_not_found'),
  SENDER_ID_MISMATCH: permanent('invalid_recipient', 'token_of_other_project'),
  INVALID_ARGUMENT: permanent('content_rejected', 'invalid_parameter'),
  OUT_OF_RANGE: permanent('content_rejected', 'invalid_parameter'),
  PERMISSION_DENIED: accountFault('forbidden'),
  UNAUTHENTICATED: accountFault('authentication_failed'),
  QUOTA_EXCEEDED: transient('provider_throttled', 'rate_limited'),
  RESOURCE_EXHAUSTED: transient('provider_throttled', 'rate_limited'),
  UNAVAILABLE: transient('provider_unavailable', 'provider_error'),
  INTERNAL: transient('provider_unavailable', 'provider_error'),
  UNSPECIFIED_ERROR: transient('provider_unavailable', 'provider_error'),
  // "May be returned even if the operation has completed successfully", google.rpc.Code.
  DEADLINE_EXCEEDED: gatewayTimeout('provider_error'),
  // Given up on Google's side, at whatever point: this client cancels no call.
  CANCELLED: gatewayTimeout('provider_error'),
  ABORTED: transient('provider_unavailable', 'provider_error'),
};

/**
 * A 401 about the credential that Firebase has for Apple's or the browsers' push service, not about the service account: other
 * devices can be reached.
 */
export const THIRD_PARTY_AUTH_ERROR = 'THIRD_PARTY_AUTH_ERROR';
export const PUSH_CERTIFICATE_MISSING = permanent('sender_rejected', 'push_certificate_missing');

/** A QUOTA_EXCEEDED of one device: others can be reached. */
export const DEVICE_LIMIT = transient('recipient_unavailable', 'recipient_rate_limited');
/** How long FCM asks to wait at a limit, at least, where the answer has no Retry-After. */
export const LIMIT_WAIT_MS = 60_000;

/** An INVALID_ARGUMENT about the token itself, not about the payload. */
export const INVALID_TOKEN = permanent('invalid_recipient', 'invalid_token');
