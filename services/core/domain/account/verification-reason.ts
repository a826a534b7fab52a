import type { Failure } from '../sending/failure.ts';

/** Groups the codes of causes that people do not distinguish. */
const WORDS: Readonly<Record<string, string>> = {
  dns: 'dns',
  connect_refused: 'connect_refused',
  unreachable: 'unreachable',
  tls: 'tls',
  certificate_invalid: 'tls',
  encryption_unavailable: 'tls',
  encryption_required: 'tls',
  timeout: 'timeout',
  connect_timeout: 'timeout',
  connection_closed: 'connection_closed',
  connection_reset: 'connection_closed',
  egress_blocked: 'egress_blocked',
};

/** Returns the reason that is shown for a credential check that did not find the credential valid. */
export function verificationReason({ class: failureClass, code }: Failure): string {
  const word = Object.hasOwn(WORDS, code) ? WORDS[code] : undefined;
  if (word !== undefined) return word;
  if (failureClass === 'provider_unavailable') return 'provider_unavailable';
  return failureClass === 'provider_throttled' ? 'rate_limited' : code;
}
