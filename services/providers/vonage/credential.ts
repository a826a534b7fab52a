import { createPublicKey } from 'node:crypto';
import { z } from 'zod';
import {
  accountFault,
  classify,
  failureOf,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import type { HttpResult, ProviderContext, Verification } from '../provider.ts';
import {
  secretsToRedact,
  basicAuthorization,
  MESSAGES_ORIGINS,
  REST_ORIGIN,
  type Account,
} from './account.ts';
import { codeOfType } from './messages-api.ts';
import { MESSAGES_CODES } from './outcomes.ts';

const BalanceBody = z.looseObject({ value: z.number() });
const ApplicationBody = z.looseObject({
  id: z.string(),
  keys: z
    .looseObject({ public_key: z.string().optional().catch(undefined) })
    .optional()
    .catch(undefined),
});
const ErrorBody = z.looseObject({
  'error-code-label': z.string().optional().catch(undefined),
  type: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
});

/**
 * Checks the API key and secret by reading the balance, and the private key by comparing it with the application's public
 * key.
 */
export async function checkCredential(account: Account, context: ProviderContext): Promise<Verification> {
  const balance = await get(`${context.origin(REST_ORIGIN)}/account/get-balance`, account, context);
  if (balance.kind !== 'response') return verificationUnknown(balance);
  if (!isSuccess(balance)) return verificationOfRefusal(balance, judge(balance), secretsToRedact(account));
  if (!BalanceBody.safeParse(parseJson(balance.text)).success) return verificationUnknown(balance);
  const { applicationId } = account.config;
  return applicationId === undefined ? { kind: 'valid' } : checkApplication(applicationId, account, context);
}

async function checkApplication(
  applicationId: string,
  account: Account,
  context: ProviderContext,
): Promise<Verification> {
  const url = `${context.origin(MESSAGES_ORIGINS.global)}/v2/applications/${applicationId}`;
  const result = await get(url, account, context);
  if (result.kind !== 'response') return verificationUnknown(result);
  const invalid = (code: string): Verification => ({
    kind: 'invalid',
    failure: failureOf(result, { meaning: accountFault(code), vendorError: {} }, []),
  });
  if (!isSuccess(result)) {
    const classified = judge(result);
    const isUnknown = result.status === 404 && classified.meaning.class === 'unknown';
    return isUnknown
      ? invalid('unknown_application')
      : verificationOfRefusal(result, classified, secretsToRedact(account));
  }
  const application = ApplicationBody.safeParse(parseJson(result.text)).data;
  if (application === undefined) return verificationUnknown(result);
  return isPair(account.secrets.privateKey, application.keys?.public_key)
    ? { kind: 'valid' }
    : invalid('private_key_mismatch');
}

/** Also true when Vonage does not return the public key. */
function isPair(privateKey: string | undefined, publicKey: string | undefined): boolean {
  if (privateKey === undefined || publicKey === undefined) return true;
  try {
    return createPublicKey(privateKey).equals(createPublicKey(publicKey));
  } catch {
    return true;
  }
}

function get(url: string, account: Account, context: ProviderContext): Promise<HttpResult> {
  const headers = { authorization: basicAuthorization(account), accept: 'application/json' };
  return context.http({ method: 'GET', url, headers });
}

function judge(response: Response) {
  return classify(response, MESSAGES_CODES, read);
}

function read(body: unknown): VendorError {
  const error = ErrorBody.safeParse(body).data;
  return {
    providerCode: codeOfType(error?.type),
    providerMessage: error?.['error-code-label'] ?? error?.detail ?? error?.title,
  };
}
