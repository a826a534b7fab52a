import { createPrivateKey } from 'node:crypto';
import { isUsableRsaKey, RSA_BITS } from '#core/domain/account/rsa-key.ts';

export const RSA_KEY_MESSAGE = `Must be an RSA private key in PEM form, of ${RSA_BITS.min} to ${RSA_BITS.max} bits`;

/** Returns whether the text is an RSA private key of a size that may be used. */
export function isRsaPrivateKey(pem: string): boolean {
  try {
    return isUsableRsaKey(createPrivateKey(pem));
  } catch {
    return false;
  }
}
