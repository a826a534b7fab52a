import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { HttpResult, ProviderContext, Verification } from './provider.ts';
import {
  accountFault,
  classify,
  codes,
  isSuccess,
  parseJson,
  transient,
  verificationOfRefusal,
  verificationUnknown,
  type CodeTable,
  type VendorError,
} from './classify-error.ts';
import { outcomeOfRefusal } from './outcome-of-send.ts';
import { unreached } from './unreached.ts';

const MEMO = 'access-token';
/** A token is not used in its last minute, so it cannot expire in transit. */
const SPARE_MS = 60_000;

/** `error` codes of a token endpoint, RFC 6749 section 5.2, and its vendors' own. None of them is about a message. */
const TOKEN_CODES: CodeTable = {
  ...codes(
    accountFault('authentication_failed'),
    'invalid_grant',
    'invalid_client',
    'invalid_request',
    'unauthorized_client',
    'invalid_scope',
    'access_denied',
    'unsupported_grant_type',
    // Microsoft: the user or an administrator has to sign in or consent again.
    'interaction_required',
    'consent_required',
    'login_required',
    // Google: an administrator's policy, or the client is for another organization.
    'admin_policy_enforced',
    'org_internal',
  ),
  ...codes(transient('provider_unavailable', 'provider_error'), 'temporarily_unavailable', 'server_error'),
};

const TokenBody = z.looseObject({
  access_token: z.string().min(1),
  expires_in: z.number().positive().catch(3_600),
});
const ErrorBody = z.looseObject({
  error: z.string(),
  error_description: z.string().optional().catch(undefined),
});

/** The token endpoint issued no token. Thrown inside the memo, because the memo remembers resolved values only. */
export class TokenRefused extends Error {
  readonly result: HttpResult;

  constructor(result: HttpResult) {
    super('The token endpoint gave no token');
    this.result = result;
  }
}

/** Returns an OAuth access token for the account and remembers it until shortly before it expires. @throws TokenRefused */
export function accessToken(
  context: ProviderContext,
  url: string,
  form: () => Promise<Readonly<Record<string, string>>>,
): Promise<string> {
  return context.memo(MEMO, async () => {
    const result = await context.http({
      method: 'POST',
      url,
      headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
      body: new URLSearchParams(await form()).toString(),
    });
    const isAnswer = result.kind === 'response' && isSuccess(result);
    const parsed = isAnswer ? TokenBody.safeParse(parseJson(result.text)).data : undefined;
    if (parsed === undefined) throw new TokenRefused(result);
    return {
      value: parsed.access_token,
      expiresAt: context.epochMs() + parsed.expires_in * 1_000 - SPARE_MS,
    };
  });
}

/** Forgets a token that was refused before its expiry. */
export function forgetAccessToken(context: ProviderContext): void {
  context.forget(MEMO);
}

/** Returns the outcome of a send without a token: nothing was sent, however the exchange with the token endpoint ended. */
export function withoutToken({ result }: TokenRefused, hidden: readonly string[], now: number): Outcome {
  if (result.kind !== 'response' || isSuccess(result)) {
    const code = result.kind === 'response' ? 'unreadable_response' : result.code;
    return { kind: 'rejected_transient', failure: unreached(code) };
  }
  const { meaning, vendorError } = classify(result, TOKEN_CODES, read);
  const classified = { meaning: transient(meaning.class, meaning.code), vendorError };
  return outcomeOfRefusal(result, classified, hidden, now);
}

/** Returns the verdict of a credential check that got no token. */
export function tokenVerdict({ result }: TokenRefused, hidden: readonly string[]): Verification {
  if (result.kind !== 'response' || isSuccess(result)) return verificationUnknown(result);
  return verificationOfRefusal(result, classify(result, TOKEN_CODES, read), hidden);
}

function read(body: unknown): VendorError {
  const vendorError = ErrorBody.safeParse(body).data;
  return { providerCode: vendorError?.error, providerMessage: vendorError?.error_description };
}
