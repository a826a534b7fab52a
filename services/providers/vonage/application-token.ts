import { createPrivateKey, randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import type { ProviderContext } from '../provider.ts';
import { basicAuthorization, type Account } from './account.ts';

const MEMO = 'application-token';
const LIFETIME_S = 900;
/** A token is not used in its last minutes, so that it cannot expire in transit or because of a clock that runs ahead. */
const SPARE_S = 300;

/**
 * Authenticates as the application if the account has one,
 * https://developer.vonage.com/en/getting-started/concepts/authentication.
 */
export async function messagesAuthorization(account: Account, context: ProviderContext): Promise<string> {
  const { applicationId } = account.config;
  const { privateKey } = account.secrets;
  if (applicationId === undefined || privateKey === undefined) return basicAuthorization(account);
  const token = await context.memo(MEMO, async () => {
    const issuedAt = Math.floor(context.epochMs() / 1_000);
    const value = await new SignJWT({ application_id: applicationId })
      .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
      .setJti(randomUUID())
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + LIFETIME_S)
      .sign(createPrivateKey(privateKey));
    return { value, expiresAt: (issuedAt + LIFETIME_S - SPARE_S) * 1_000 };
  });
  return `Bearer ${token}`;
}

/** Forgets a token that was refused. */
export function forgetApplicationToken(context: ProviderContext): void {
  context.forget(MEMO);
}
