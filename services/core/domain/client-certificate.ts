import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';

/** Presented to servers that request a client certificate: both PEM; `certificate` may include the intermediate certificates. */
export type ClientCertificate = { readonly certificate: string; readonly key: string };

/** A fault of a certificate or its key. The message repeats nothing of either. */
export type CertificateFault = {
  readonly field: 'certificate' | 'key';
  readonly rule: string;
  readonly message: string;
};

const KINDS: ReadonlySet<string> = new Set(['rsa', 'ec', 'ed25519']);
const RSA_BITS_MIN = 2_048;

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
  if (!isStrong(own)) {
    const message = `Must be an EC or Ed25519 key, or one of RSA with at least ${RSA_BITS_MIN} bits`;
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

function isStrong({ asymmetricKeyType: kind, asymmetricKeyDetails: details }: KeyObject): boolean {
  return (
    kind !== undefined && KINDS.has(kind) && (kind !== 'rsa' || (details?.modulusLength ?? 0) >= RSA_BITS_MIN)
  );
}

function parsed<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch {
    return undefined;
  }
}
