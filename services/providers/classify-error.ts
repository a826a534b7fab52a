import type { Failure, FailureClass } from '#core/domain/sending/failure.ts';
import type { HttpResult, Verification } from './provider.ts';
import { createRedactor } from './redact.ts';
import { unreached } from './unreached.ts';
import { PROVIDER_CODE_MAX, vendorText } from './vendor-text.ts';

/** The meaning of a refusal: its class, our stable reason, and whether a retry of the same message may succeed. */
export type ErrorMeaning = {
  readonly class: FailureClass;
  /** Our stable snake_case reason. */
  readonly code: string;
  readonly retry: boolean;
  /** The provider may have accepted the message all the same. Default: it has not. */
  readonly mayBeAccepted?: true;
};

/** A provider's error codes and their meanings. */
export type CodeTable = Readonly<Record<string, ErrorMeaning>>;

export type Response = Extract<HttpResult, { kind: 'response' }>;

/** The provider can never accept the message as it is. */
export function permanent(failureClass: FailureClass, code: string): ErrorMeaning {
  return { class: failureClass, code, retry: false };
}

/** The provider does not accept the message now; a retry may succeed. */
export function transient(failureClass: FailureClass, code: string): ErrorMeaning {
  return { class: failureClass, code, retry: true };
}

/** Nothing is accepted until the account is fixed; the message is not at fault and waits for that. */
export function accountFault(code: string): ErrorMeaning {
  return transient('auth_or_config', code);
}

/** Returns a table in which all the values mean the same. */
export function codes(meaning: ErrorMeaning, ...values: readonly (number | string)[]): CodeTable {
  return Object.fromEntries(values.map((value) => [value, meaning]));
}

/** A gateway passed the request on and got no answer in time, so what the provider did with it is unknown. */
export function gatewayTimeout(code: string): ErrorMeaning {
  return { ...transient('provider_unavailable', code), mayBeAccepted: true };
}

const BY_STATUS: Readonly<Record<number, ErrorMeaning>> = {
  401: accountFault('authentication_failed'),
  402: accountFault('insufficient_credit'),
  403: accountFault('forbidden'),
  408: transient('provider_unavailable', 'http_408'),
  413: permanent('content_rejected', 'payload_too_large'),
  414: permanent('content_rejected', 'payload_too_large'),
  425: transient('provider_unavailable', 'http_425'),
  429: transient('provider_throttled', 'rate_limited'),
  431: permanent('content_rejected', 'payload_too_large'),
  504: gatewayTimeout('http_504'),
  // Cloudflare's own.
  524: gatewayTimeout('http_524'),
};

/** Returns the default meaning of a non-success HTTP status, for responses without a known vendor code. */
function meaningOfStatus(status: number): ErrorMeaning {
  const known = BY_STATUS[status];
  if (known !== undefined) return known;
  const isRefusal = status >= 400 && status < 500;
  return isRefusal
    ? permanent('unknown', `http_${status}`)
    : transient('provider_unavailable', `http_${status}`);
}

/**
 * The vendor code takes precedence over the HTTP status. Exception: a 401 is always about the credential, so it never ends
 * a message.
 */
function meaningOf(table: CodeTable, vendorCode: string | undefined, status: number): ErrorMeaning {
  const known = vendorCode !== undefined && Object.hasOwn(table, vendorCode) ? table[vendorCode] : undefined;
  const isTrusted = status !== 401 || known?.class === 'auth_or_config';
  return known !== undefined && isTrusted ? known : meaningOfStatus(status);
}

/**
 * Statuses about the address of the API or the way to it. Without a code of the vendor they say nothing about the message: a
 * gateway that has lost its routes, or a proxy, gives them to every call.
 */
const ABOUT_THE_WAY: ReadonlySet<number> = new Set([404, 405, 407, 410, 421]);

/** Returns true for a response written by a proxy or firewall: these APIs answer in JSON. */
export function isPage(response: Response): boolean {
  return (
    (response.headers['content-type'] ?? '').toLowerCase().includes('html') ||
    /^\s*<(?:!doctype|html)/i.test(response.text)
  );
}

/**
 * Returns the meaning of an HTML page in place of the API's answer. A page says nothing about the message, so it is
 * permanent only when the size was refused, and nothing about the credential.
 */
function meaningOfPage(status: number): ErrorMeaning {
  const meaning = meaningOfStatus(status);
  const isTrusted = meaning.class === 'content_rejected' || meaning.class === 'provider_throttled';
  return isTrusted || meaning.mayBeAccepted ? meaning : transient('provider_unavailable', `http_${status}`);
}

/** The provider's code and text, in addition to the HTTP status. */
export type VendorError = {
  readonly providerCode?: string | undefined;
  readonly providerMessage?: string | undefined;
};

export type ClassifiedError = {
  readonly meaning: ErrorMeaning;
  readonly vendorError: VendorError;
  /** How long to wait before the next call, in milliseconds, if the answer has no Retry-After. */
  readonly waitMs?: number | undefined;
};

/** Classifies a non-success response. `read` extracts the vendor's code and text from the parsed body. */
export function classify(
  response: Response,
  table: CodeTable,
  read: (body: unknown) => VendorError,
): ClassifiedError {
  if (isPage(response)) return { meaning: meaningOfPage(response.status), vendorError: {} };
  const vendorError = read(parseJson(response.text));
  if (vendorError.providerCode === undefined && ABOUT_THE_WAY.has(response.status))
    return { meaning: transient('provider_unavailable', `http_${response.status}`), vendorError };
  return { meaning: meaningOf(table, vendorError.providerCode, response.status), vendorError };
}

export function isSuccess({ status }: Response): boolean {
  return status >= 200 && status <= 299;
}

export function failureOf(
  response: Response,
  { meaning, vendorError }: ClassifiedError,
  hidden: readonly string[],
): Failure {
  const { providerCode, providerMessage } = vendorError;
  const redact = createRedactor(providerCode === undefined && providerMessage === undefined ? [] : hidden);
  return {
    class: meaning.class,
    code: meaning.code,
    ...(providerCode === undefined
      ? {}
      : { providerCode: vendorText(redact(providerCode), PROVIDER_CODE_MAX) }),
    ...(providerMessage === undefined ? {} : { providerMessage: redact(providerMessage) }),
    httpStatus: response.status,
  };
}

/** Returns the verdict of a credential check on a non-success response: only a refused credential is invalid. */
export function verificationOfRefusal(
  response: Response,
  classified: ClassifiedError,
  hidden: readonly string[],
): Verification {
  const failure = failureOf(response, classified, hidden);
  return { kind: failure.class === 'auth_or_config' ? 'invalid' : 'unknown', failure };
}

/** Returns the verdict of a credential check that got no response, or a success whose body is not the API's answer. */
export function verificationUnknown(result: HttpResult): Verification {
  const failure: Failure =
    result.kind === 'response'
      ? { ...unreached('unreadable_response'), httpStatus: result.status }
      : unreached(result.code);
  return { kind: 'unknown', failure };
}

/** Parses JSON without throwing: providers and the proxies in front of them may answer with anything. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
