import { createPrivateKey, sign } from 'node:crypto';
import type { ProviderContext } from '../provider.ts';
import type { Account } from './account.ts';

/**
 * Apple accepts a token for one hour and rejects a new one issued within twenty minutes,
 * https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns.
 */
const SLOT_MS = 40 * 60_000;
const RENEWED_MS_MIN = 20 * 60_000;

/** The token of one account; all sends of the account share it. */
export type ProviderToken = {
  current: string;
  renewedAt: number;
};

/**
 * Token slots start at the same times in every process, so the tokens of all processes have the same issue time and do not
 * look like frequent renewals to Apple.
 */
export function providerToken(account: Account, context: ProviderContext): Promise<ProviderToken> {
  return context.memo('provider-token', async () => {
    const begin = Math.floor(context.epochMs() / SLOT_MS) * SLOT_MS;
    const value: ProviderToken = {
      current: signedToken(account, begin),
      renewedAt: Number.NEGATIVE_INFINITY,
    };
    return { value, expiresAt: begin + SLOT_MS };
  });
}

/**
 * Replaces a token that Apple reported as expired, once for all sends that were rejected with it.
 * @returns whether there is a new token to retry with.
 */
export function renew(token: ProviderToken, refused: string, account: Account, now: number): boolean {
  if (token.current !== refused) return true;
  if (now - token.renewedAt < RENEWED_MS_MIN) return false;
  token.current = signedToken(account, now);
  token.renewedAt = now;
  return true;
}

function signedToken({ config, secrets }: Account, issuedAt: number): string {
  const text = [
    { alg: 'ES256', kid: config.keyId },
    { iss: config.teamId, iat: Math.floor(issuedAt / 1_000) },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  const key = { key: createPrivateKey(secrets.privateKey), dsaEncoding: 'ieee-p1363' } as const;
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}
