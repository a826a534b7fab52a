import { z } from 'zod';
import {
  accountFault,
  classify,
  codes,
  transient,
  verificationOfRefusal,
  type ClassifiedError,
  type CodeTable,
  type Response,
} from '../classify-error.ts';
import type { Verification } from '../provider.ts';

const Text = z.string().optional().catch(undefined);
const ErrorBody = z.looseObject({
  __type: Text,
  message: Text,
  Message: Text,
  Reason: Text,
  ResourceType: Text,
  Fields: z.array(z.looseObject({ Name: z.string() })).catch([]),
});

/** Errors common to all services, https://docs.aws.amazon.com/general/latest/APIReference/CommonErrors.html. */
const COMMON_CODES: CodeTable = {
  ...codes(
    accountFault('authentication_failed'),
    'InvalidClientTokenId',
    'UnrecognizedClientException',
    'SignatureDoesNotMatch',
    'InvalidSignatureException',
    'IncompleteSignature',
    'IncompleteSignatureException',
    'MissingAuthenticationToken',
    'MissingAuthenticationTokenException',
    'ExpiredToken',
    'ExpiredTokenException',
    // SNS's name for it, https://docs.aws.amazon.com/sns/latest/api/API_Publish.html.
    'InvalidSecurity',
    'InvalidSecurityException',
  ),
  ...codes(
    accountFault('forbidden'),
    'AccessDenied',
    'AccessDeniedException',
    'AuthorizationError',
    'AuthorizationErrorException',
    'NotAuthorized',
    'OptInRequired',
  ),
  ...codes(
    transient('provider_throttled', 'rate_limited'),
    'Throttling',
    'ThrottlingException',
    'Throttled',
    'ThrottledException',
    'TooManyRequestsException',
    'RequestThrottled',
    'RequestThrottledException',
    'RequestLimitExceeded',
  ),
  ...codes(
    transient('provider_unavailable', 'provider_error'),
    'InternalError',
    'InternalErrorException',
    'InternalFailure',
    'InternalServerException',
    'ServiceUnavailable',
    'ServiceUnavailableException',
  ),
  // Our clock and AWS's differ; neither the message nor the account is at fault.
  ...codes(transient('provider_unavailable', 'clock_skewed'), 'RequestTimeTooSkewed', 'RequestExpired'),
};

/** Classifies a JSON error response by its most specific part: reason, field, resource kind, then code. */
export function judgeAwsError(response: Response, table: CodeTable): ClassifiedError {
  return classify(response, { ...COMMON_CODES, ...table }, (body) => {
    const error = ErrorBody.safeParse(body).data;
    const code = codeOf(response.headers['x-amzn-errortype'] ?? error?.['__type']);
    const particular = [
      error?.Reason,
      ...(error?.Fields ?? []).map(({ Name }) => `${code}:${Name}`),
      `${code}:${error?.ResourceType}`,
    ].find((key) => key !== undefined && Object.hasOwn(table, key));
    return { providerCode: particular ?? code, providerMessage: error?.message ?? error?.Message };
  });
}

/** Classifies an XML error response, the format of older services. */
export function judgeAwsXmlError(response: Response, table: CodeTable): ClassifiedError {
  return classify(response, { ...COMMON_CODES, ...table }, () => ({
    providerCode: xmlText(response.text, 'Code'),
    providerMessage: xmlText(response.text, 'Message'),
  }));
}

/** Returns the verdict of a credential check that AWS refused. A key whose permissions may cover sending only is not invalid. */
export function verificationOfAwsRefusal(
  response: Response,
  classified: ClassifiedError,
  hidden: readonly string[],
): Verification {
  const verdict = verificationOfRefusal(response, classified, hidden);
  return verdict.kind === 'invalid' && verdict.failure.code === 'forbidden'
    ? { ...verdict, kind: 'unknown' }
    : verdict;
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

/** Returns the text of the first element with this name. These responses contain no attributes and no CDATA. */
export function xmlText(xml: string, name: string): string | undefined {
  const text = new RegExp(`<${name}>([^<]{0,4096})</${name}>`).exec(xml)?.[1];
  return text?.replace(/&(lt|gt|quot|apos|amp);/g, (_, entity: string) => ENTITIES[entity] ?? '');
}

/** AWS puts a namespace before the code or a URL after it. */
function codeOf(type: string | undefined): string | undefined {
  return type?.split(':')[0]?.split('#').at(-1)?.trim();
}
