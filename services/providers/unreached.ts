import type { Failure } from '#core/domain/sending/failure.ts';

/** Fixed texts for connection failures: an error's own text may contain addresses of our network. */
const TEXTS: Readonly<Record<string, string>> = {
  invalid_url: 'The URL of the provider cannot be used',
  dns: 'The host name of the provider has no address',
  connect_refused: 'The server of the provider refused the connection',
  connect_failed: 'No connection to the provider',
  connect_timeout: 'No connection to the provider in time',
  unreachable: 'The network knows no way to the server of the provider',
  tls: 'No trusted TLS connection to the provider',
  certificate_invalid: 'The certificate of the server does not prove its host name',
  encryption_unavailable: 'The server offers no encryption, and the account asks for it',
  egress_blocked: 'The address or port of the server is not one that connections may go to',
  timeout: 'The provider did not answer in time',
  connection_reset: 'The connection to the provider broke off',
  connection_closed: 'The provider closed the connection',
  payload_too_large: 'The mail is larger than the server allows',
  protocol_error: 'The server does not speak the protocol',
  reply_too_long: 'The server sent more than a mail server answers',
  unreadable_response: 'The answer of the provider cannot be read',
};

/** Returns the failure of an exchange that brought no response, or an unreadable one. */
export function unreached(code: string): Failure {
  const text = Object.hasOwn(TEXTS, code) ? TEXTS[code] : undefined;
  return { class: 'provider_unavailable', code, ...(text === undefined ? {} : { providerMessage: text }) };
}
