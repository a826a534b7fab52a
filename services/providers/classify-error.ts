import type { Failure, FailureClass } from '#core/domain/failure.ts';
import type { Outcome } from '#core/domain/outcome.ts';
import type { HttpResult, Verification } from './provider.ts';
import { redact } from './redact.ts';
import { unreached } from './unreached.ts';
import { retryAfterMs } from './retry-after.ts';

/** What a refusal means: its class, our stable reason, and whether the same message may pass later. */
export type ErrorMeaning = {
  readonly class: FailureClass;
  /** Our stable snake_case reason. */
  readonly code: string;
  readonly retry: boolean;
};

/** A provider's error codes and what each of them means. */
export type CodeTable = Readonly<Record<string, ErrorMeaning>>;

export type Response = Extract<HttpResult, { kind: 'response' }>;

/** The message can never be accepted as it is. */
export function permanent(failureClass: FailureClass, code: string): ErrorMeaning {
  return { class: failureClass, code, retry: false };
}

/** Not accepted now; the same message may be accepted later. */
export function transient(failureClass: FailureClass, code: string): ErrorMeaning {
  return { class: failureClass, code, retry: true };
}

/** The account must be fixed before anything passes; the message waits for that (it is not the message's fault). */
export function account(code: string): ErrorMeaning {
  return transient('auth_or_config', code);
}

const BY_STATUS: Readonly<Record<number, ErrorMeaning>> = {
  401: account('authentication_failed'),
  402: account('insufficient_credit'),
  403: account('forbidden'),
  408: transient('provider_unavailable', 'http_408'),
  413: permanent('content_rejected', 'payload_too_large'),
  414: permanent('content_rejected', 'payload_too_large'),
  425: transient('provider_unavailable', 'http_425'),
  429: transient('provider_throttled', 'rate_limited'),
  431: permanent('content_rejected', 'payload_too_large'),
};

/** The default meaning of an HTTP status that is not a success, where no vendor code says it better. */
function meaningOfStatus(status: number): ErrorMeaning {
  const known = BY_STATUS[status];
  if (known !== undefined) return known;
  const isRefusal = status >= 400 && status < 500;
  return isRefusal
    ? permanent('unknown', `http_${status}`)
    : transient('provider_unavailable', `http_${status}`);
}

/** Vendor code first, HTTP status second; but a 401 speaks of the credential whatever its code, so it ends no message. */
function meaningOf(table: CodeTable, vendorCode: string | undefined, status: number): ErrorMeaning {
  const known = vendorCode !== undefined && Object.hasOwn(table, vendorCode) ? table[vendorCode] : undefined;
  const isTrusted = status !== 401 || known?.class === 'auth_or_config';
  return known !== undefined && isTrusted ? known : meaningOfStatus(status);
}

/** True for an answer that a proxy or firewall wrote: these APIs speak JSON. */
function isPage(response: Response): boolean {
  return (
    (response.headers['content-type'] ?? '').toLowerCase().includes('html') ||
    /^\s*<(?:!doctype|html)/i.test(response.text)
  );
}

/**
 * What a page instead of the API's own answer means. It says nothing about the message, so it is never permanent unless
 * the size was refused, and nothing about the credential either.
 */
function meaningOfPage(status: number): ErrorMeaning {
  const meaning = meaningOfStatus(status);
  const isTrusted = meaning.class === 'content_rejected' || meaning.class === 'provider_throttled';
  return isTrusted ? meaning : transient('provider_unavailable', `http_${status}`);
}

/** What the provider said beside its status. */
export type VendorError = {
  readonly providerCode?: string | undefined;
  readonly providerMessage?: string | undefined;
};

export type ClassifiedError = { readonly meaning: ErrorMeaning; readonly vendorError: VendorError };

/** Judges a response that is no success: `read` finds the vendor's code and text in the parsed body. */
export function classify(
  response: Response,
  table: CodeTable,
  read: (body: unknown) => VendorError,
): ClassifiedError {
  if (isPage(response)) return { meaning: meaningOfPage(response.status), vendorError: {} };
  const vendorError = read(parseJson(response.text));
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
  return {
    class: meaning.class,
    code: meaning.code,
    ...(vendorError.providerCode === undefined
      ? {}
      : { providerCode: redact(vendorError.providerCode, hidden).slice(0, 64) }),
    ...(vendorError.providerMessage === undefined
      ? {}
      : { providerMessage: redact(vendorError.providerMessage, hidden) }),
    httpStatus: response.status,
  };
}

/** Turns a classified refusal into the outcome, with the provider's wish for the time of the next try. */
export function refused(
  response: Response,
  { meaning, vendorError }: ClassifiedError,
  hidden: readonly string[],
  now: number,
): Exclude<Outcome, { kind: 'accepted' | 'ambiguous' }> {
  const failure = failureOf(response, { meaning, vendorError }, hidden);
  if (!meaning.retry) return { kind: 'rejected_permanent', failure };
  const wait = retryAfterMs(response.headers['retry-after'], now);
  return { kind: 'rejected_transient', failure, ...(wait === undefined ? {} : { retryAfterMs: wait }) };
}

/** The outcome of an exchange that ended without a response. */
export function unanswered(result: Exclude<HttpResult, { kind: 'response' }>): Outcome {
  const failure = unreached(result.code);
  return result.kind === 'not_sent'
    ? { kind: 'rejected_transient', failure }
    : { kind: 'ambiguous', failure };
}

/** A success status whose body is not the API's answer: the provider may have accepted, and nobody can tell. */
export function unreadable(response: Response): Outcome {
  return {
    kind: 'ambiguous',
    failure: { ...unreached('unreadable_response'), httpStatus: response.status },
  };
}

/** What a credential check may conclude from a response that is no success: only a refused credential is invalid. */
export function doubted(
  response: Response,
  classified: ClassifiedError,
  hidden: readonly string[],
): Verification {
  const failure = failureOf(response, classified, hidden);
  return { kind: failure.class === 'auth_or_config' ? 'invalid' : 'unknown', failure };
}

/** A credential check that got no response, or a success that is not the API's answer. */
export function unverified(result: HttpResult): Verification {
  const failure: Failure =
    result.kind === 'response'
      ? { ...unreached('unreadable_response'), httpStatus: result.status }
      : unreached(result.code);
  return { kind: 'unknown', failure };
}

/** Parses JSON without throwing: providers and the proxies before them answer with anything. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
