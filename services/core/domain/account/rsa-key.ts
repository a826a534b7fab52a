import type { KeyObject } from 'node:crypto';

/**
 * Sizes of RSA keys that tenants may store, in bits. The time of a signature grows with the cube of the size, and TLS signs in the
 * event loop: a key of 16,384 bits stops it for a second at each connection.
 */
export const RSA_BITS = { min: 2_048, max: 4_096 } as const;

/** Returns whether this is an RSA key of a size that may be used. */
export function isUsableRsaKey({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): boolean {
  const bits = asymmetricKeyDetails?.modulusLength ?? 0;
  return asymmetricKeyType === 'rsa' && bits >= RSA_BITS.min && bits <= RSA_BITS.max;
}
