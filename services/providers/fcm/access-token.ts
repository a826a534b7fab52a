import { createPrivateKey } from 'node:crypto';
import { SignJWT } from 'jose';
import { accessToken } from '../oauth.ts';
import type { ProviderContext } from '../provider.ts';
import { signerOf, type Account } from './account.ts';

const ISSUER = 'https://oauth2.googleapis.com';

/** Gets an access token for FCM in exchange for a JWT signed by the service account. @throws TokenRefused */
export function fcmToken(account: Account, context: ProviderContext): Promise<string> {
  return accessToken(context, `${context.origin(ISSUER)}/token`, async () => ({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: await assertion(account, context.epochMs()),
  }));
}

/**
 * The audience is always Google's own endpoint: a tenant's `token_uri` is never called, and the JWT must not be signed for
 * an override.
 */
function assertion(account: Account, now: number): Promise<string> {
  const { clientEmail, privateKey } = signerOf(account);
  const issuedAt = Math.floor(now / 1_000);
  return new SignJWT({ scope: 'https://www.googleapis.com/auth/firebase.messaging' })
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT' })
    .setIssuer(clientEmail)
    .setAudience(`${ISSUER}/token`)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + 3_600)
    .sign(createPrivateKey(privateKey));
}
