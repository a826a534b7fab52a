import { createPrivateKey } from 'node:crypto';
import { SignJWT } from 'jose';
import { z } from 'zod';
import type { HttpResult, ProviderContext } from '../provider.ts';
import { judge, isSuccess, parseJson, type Judged, type Response, type Said } from '../ruling.ts';
import { signerOf, type Account } from './account.ts';
import { TOKEN_CODES } from './outcomes.ts';

const ISSUER = 'https://oauth2.googleapis.com';
const MEMO = 'access-token';
/** A token is not used in its last minute, so that it cannot expire on the way. */
const SPARE_MS = 60_000;

const TokenBody = z.looseObject({
  access_token: z.string().min(1),
  expires_in: z.number().positive().catch(3_600),
});
const ErrorBody = z.looseObject({
  error: z.string(),
  error_description: z.string().optional().catch(undefined),
});

/** The token endpoint gave no token. Thrown inside the memo, which remembers values only. */
export class TokenRefused extends Error {
  readonly result: HttpResult;

  constructor(result: HttpResult) {
    super('The token endpoint gave no token');
    this.result = result;
  }
}

/** An OAuth access token for the account, remembered until shortly before its end. Throws `TokenRefused`. */
export function accessToken(account: Account, context: ProviderContext): Promise<string> {
  return context.memo(MEMO, async () => {
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ISSUER)}/token`,
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion: await assertion(account, context.now()),
      }).toString(),
    });
    const parsed =
      result.kind === 'response' && isSuccess(result)
        ? TokenBody.safeParse(parseJson(result.text))
        : undefined;
    if (parsed?.success !== true) throw new TokenRefused(result);
    return {
      value: parsed.data.access_token,
      expiresAt: context.now() + parsed.data.expires_in * 1_000 - SPARE_MS,
    };
  });
}

export function forgetAccessToken(context: ProviderContext): void {
  context.forget(MEMO);
}

export function judgeToken(response: Response): Judged {
  return judge(response, TOKEN_CODES, readTokenError);
}

/** Always for Google's own endpoint: a `token_uri` of the tenant is not asked, and an override must not be signed for. */
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

function readTokenError(body: unknown): Said {
  const said = ErrorBody.safeParse(body).data;
  return { providerCode: said?.error, providerMessage: said?.error_description };
}
