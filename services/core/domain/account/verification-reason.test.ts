import { expect, test } from 'vitest';
import { verificationReason } from './verification-reason.ts';

test.each([
  ['provider_unavailable', 'dns', 'dns'],
  ['provider_unavailable', 'connect_refused', 'connect_refused'],
  ['provider_unavailable', 'connect_timeout', 'timeout'],
  ['provider_unavailable', 'tls', 'tls'],
  ['auth_or_config', 'certificate_invalid', 'tls'],
  ['auth_or_config', 'encryption_unavailable', 'tls'],
  ['auth_or_config', 'egress_blocked', 'egress_blocked'],
  ['provider_unavailable', 'http_503', 'provider_unavailable'],
  ['provider_unavailable', 'unreadable_response', 'provider_unavailable'],
  ['provider_throttled', 'rate_limited', 'rate_limited'],
  ['provider_throttled', 'http_429', 'rate_limited'],
  ['auth_or_config', 'authentication_failed', 'authentication_failed'],
  ['auth_or_config', 'account_suspended', 'account_suspended'],
] as const)('a failure %s with code %s has the reason %s', (failureClass, code, reason) => {
  expect(verificationReason({ class: failureClass, code })).toBe(reason);
});
