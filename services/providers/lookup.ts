import type { Failure } from '#core/domain/sending/failure.ts';
import type { HttpRequest } from '#core/domain/sending/http-exchange.ts';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import {
  classify,
  failureOf,
  isSuccess,
  parseJson,
  type ClassifiedError,
  type CodeTable,
  type Response,
  type VendorError,
} from './classify-error.ts';
import type { ProviderContext } from './provider.ts';
import type { ParsedReceipt } from './receipt.ts';
import { unreached } from './unreached.ts';

/** A message whose state is looked up at its provider. */
export type LookupQuestion = {
  /** The message's public id, which was sent to the vendor as our reference where the vendor takes one. */
  readonly messageId: string;
  /** The id that `send` returned; null when the call got no answer. */
  readonly providerMessageId: string | null;
};

export type LookupAnswer =
  /** The vendor's reports, in the form of a receipt. Empty when the vendor knows the message and reports no state. */
  | {
      readonly kind: 'found';
      readonly reports: readonly LookupReport[];
      /** The vendor's id, when the message was found by our reference. */
      readonly providerMessageId?: string;
    }
  /** The vendor does not know the message, or does not know it yet. */
  | { readonly kind: 'not_found' }
  /** The vendor cannot be asked about this message. */
  | { readonly kind: 'unanswerable' }
  /** The account's credential may not look up messages. It may still be allowed to send. */
  | { readonly kind: 'forbidden'; readonly failure: Failure }
  /**
   * No answer about the message, because of a rate limit or an outage. `retryAfterMs` is the delay that the vendor asked
   * for.
   */
  | { readonly kind: 'unanswered'; readonly failure: Failure; readonly retryAfterMs?: number };

/** Always about the message that was looked up, whatever ids the response contains. */
export type LookupReport = Omit<ParsedReceipt, 'reference' | 'providerMessageId'>;

/** How fast one account is queried: a small part of the vendor's rate limit, because sends share the same limit. */
export type LookupPace = {
  /** Average interval between two lookups, in milliseconds. */
  readonly everyMs: number;
  /** Lookups in flight at once. */
  readonly atOnce: 1 | 2 | 3 | 4;
};

/** Suits vendors that allow tens of requests a second, or document no limit and answer 429 when it is exceeded. */
export const USUAL_PACE: LookupPace = { everyMs: 1_000, atOnce: 4 };

/** How to look up one message at a provider. */
export type LookupDefinition<Config, Secrets> = {
  /** `id`: by the vendor's id only. `reference`: also by our reference, which resolves a call without an answer. */
  readonly by: 'id' | 'reference';
  readonly pace: LookupPace;
  /** Makes one lookup. When `by` is `id`, it is never called without the vendor's id. */
  ask(
    question: LookupQuestion,
    account: { readonly config: Config; readonly secrets: Secrets },
    context: ProviderContext,
  ): Promise<LookupAnswer>;
};

/** The vendor-specific parts of a lookup by HTTP. */
export type LookupExchange = {
  readonly request: HttpRequest;
  readonly codes: CodeTable;
  /** Extracts the vendor's code and text from the parsed body of a refusal. */
  readonly readError: (body: unknown) => VendorError;
  /** Reads the parsed body of a success; undefined when it is not the API's answer. */
  readonly read: (body: unknown) => LookupAnswer | undefined;
  /** Texts that must not appear in a failure. */
  readonly hidden: readonly string[];
};

/** Makes a lookup with one HTTP request. 404 and 410 mean that the vendor does not know the message. */
export async function lookUp(exchange: LookupExchange, context: ProviderContext): Promise<LookupAnswer> {
  if (!isPlain(exchange.request.url)) return { kind: 'unanswerable' };
  const result = await context.http(exchange.request);
  if (result.kind !== 'response') return { kind: 'unanswered', failure: unreached(result.code) };
  if (isSuccess(result)) {
    const unreadable = { ...unreached('unreadable_response'), httpStatus: result.status };
    return exchange.read(parseJson(result.text)) ?? { kind: 'unanswered', failure: unreadable };
  }
  const classified = judge(result, exchange);
  const failure = failureOf(result, classified, exchange.hidden);
  if (result.status === 404 || result.status === 410)
    // A proxy's page says nothing about the message.
    return parseJson(result.text) === undefined && result.text !== ''
      ? { kind: 'unanswered', failure }
      : { kind: 'not_found' };
  if (classified.meaning.class === 'auth_or_config') return { kind: 'forbidden', failure };
  if (!classified.meaning.retry) return { kind: 'unanswerable' };
  const wait = retryAfterMs(result.headers['retry-after'], context.epochMs());
  return { kind: 'unanswered', failure, ...(wait === undefined ? {} : { retryAfterMs: wait }) };
}

/** A vendor code that is permanent for a send does not end a lookup: only the HTTP status decides whether to retry. */
function judge(response: Response, { codes, readError }: LookupExchange): ClassifiedError {
  const byCode = classify(response, codes, readError);
  return byCode.meaning.retry ? byCode : classify(response, {}, readError);
}

/** Encodes one path segment: a vendor's message id may contain any characters. */
export function pathPart(id: string): string {
  return encodeURIComponent(id.toWellFormed());
}

/** A segment of dots alone moves up one level however it is encoded, so it cannot name a message. */
function isPlain(url: string): boolean {
  return !/\/(?:\.|%2e){1,2}(?:[/?]|$)/i.test(url);
}
