/** Why a message or an attempt failed, in terms that apply to every provider. */
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

/** The provider's answer, normalized and in its own text. Never contains a secret, a recipient or content. */
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

/** Code of the failure of an adapter that threw, which is a bug: nobody knows whether it sent a request. */
export const ADAPTER_FAULT = 'adapter_fault';

/** Whether the failure concerns the provider or its account, not one recipient; only such failures affect a breaker. */
export function isProviderFault(failureClass: FailureClass): boolean {
  return failureClass === 'provider_unavailable' || failureClass === 'provider_throttled';
}
