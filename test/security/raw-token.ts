import { KeyObject, sign, type SignKeyObjectInput } from 'node:crypto';
import type { SigningKey } from '#test/support/oidc-issuer.ts';

export type Claims = Readonly<Record<string, unknown>>;

/** Builds a token exactly as given, valid or not; libraries refuse to make most of these. */
export function rawToken(
  header: unknown,
  claims: unknown,
  signed: (input: string) => Buffer | string,
): string {
  const input = `${part(header)}.${part(claims)}`;
  const signature = signed(input);
  return `${input}.${typeof signature === 'string' ? signature : signature.toString('base64url')}`;
}

/** Returns a function that signs with the issuer's key. */
export function signedBy({ privateKey }: Pick<SigningKey, 'privateKey'>): (input: string) => Buffer {
  const key = privateKey instanceof KeyObject ? privateKey : KeyObject.from(privateKey);
  return (input) => signWith(key, { dsaEncoding: 'ieee-p1363' }, input);
}

export function signWith(
  key: KeyObject,
  options: Omit<SignKeyObjectInput, 'key'>,
  input: string,
  digest: string | null = 'sha256',
): Buffer {
  return sign(digest, Buffer.from(input), { ...options, key });
}

function part(value: unknown): string {
  return Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
}
