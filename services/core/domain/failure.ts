/** Why a message or an attempt failed, in terms that hold for every provider. */
export const FAILURE_CLASSES = [
  'invalid_recipient',
  'recipient_unavailable',
  'content_rejected',
  'sender_rejected',
  'auth_or_config',
  'provider_throttled',
  'provider_unavailable',
  'no_route',
  'expired',
  'unknown',
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** What the provider said, normalised and in its own words. Never holds a secret, a recipient or content. */
export type Failure = {
  readonly class: FailureClass;
  /** Our stable snake_case reason, for example `unknown_recipient`, `http_503`, `timeout`. */
  readonly code: string;
  /** The provider's own code as an opaque string. */
  readonly providerCode?: string;
  /** The provider's own text: at most 300 characters, control characters removed, secrets redacted. */
  readonly providerMessage?: string;
  readonly httpStatus?: number;
};

/** Failure classes that speak of the provider or its account, not of one recipient: only these move a breaker. */
export function isProviderFault(failureClass: FailureClass): boolean {
  return failureClass === 'provider_unavailable' || failureClass === 'provider_throttled';
}
