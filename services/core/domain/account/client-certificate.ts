import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { isUsableRsaKey, RSA_BITS } from './rsa-key.ts';

/** Presented to servers that request a client certificate: both PEM; `certificate` may include the intermediate certificates. */
export type ClientCertificate = { readonly certificate: string; readonly key: string };

/** A fault of a certificate or its key. The message repeats nothing of either. */
export type CertificateFault = {
  readonly field: 'certificate' | 'key';
  readonly rule: string;
  readonly message: string;
};

const CURVE_KINDS: ReadonlySet<string> = new Set(['ec', 'ed25519']);

/**
 * Returns why a certificate cannot be used; undefined for a usable one. Expiry is not checked: the server decides about it.
 * @param isTakenByTls whether TLS accepts the certificate and key for a connection.
 */
export function clientCertificateFault(
  { certificate, key }: ClientCertificate,
  isTakenByTls: (shown: ClientCertificate) => boolean,
): CertificateFault | undefined {
  const shown = parsed(() => new X509Certificate(certificate));
  if (shown === undefined)
    return { field: 'certificate', rule: 'pem', message: 'Must be a certificate in PEM form' };
  const own = parsed(() => createPrivateKey(key));
  if (own === undefined)
    return { field: 'key', rule: 'pem', message: 'Must be a private key in PEM form, without a passphrase' };
  if (!isUsable(own)) {
    const message = `Must be an EC or Ed25519 key, or one of RSA with ${RSA_BITS.min} to ${RSA_BITS.max} bits`;
    return { field: 'key', rule: 'kind', message };
  }
  if (!shown.checkPrivateKey(own))
    return { field: 'key', rule: 'match', message: 'Must be the key of the certificate' };
  return isTakenByTls({ certificate, key })
    ? undefined
    : { field: 'certificate', rule: 'tls', message: NOT_TAKEN };
}

const NOT_TAKEN =
  'TLS does not take it: each certificate of the chain must be whole, and the key and the signature strong enough';

function isUsable(key: KeyObject): boolean {
  return CURVE_KINDS.has(key.asymmetricKeyType ?? '') || isUsableRsaKey(key);
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
