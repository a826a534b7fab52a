import type { Failure } from '#core/domain/failure.ts';
import type { HttpRequest } from '#core/domain/http-exchange.ts';
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
import { retryAfterMs } from './retry-after.ts';
import { unreached } from './unreached.ts';

/** A message whose provider is asked what became of it. */
export type LookupQuestion = {
  /** The message's public id, which the vendor was sent as our reference where it takes one. */
  readonly messageId: string;
  /** As `send` has returned it; null where no answer came. */
  readonly providerMessageId: string | null;
};

export type LookupAnswer =
  /** What the vendor says, as a receipt would. None, where it knows the message and tells nothing of it. */
  | {
      readonly kind: 'found';
      readonly reports: readonly LookupReport[];
      /** The vendor's id, where the message was found by ours. */
      readonly providerMessageId?: string;
    }
  /** The vendor does not know the message, or not yet. */
  | { readonly kind: 'not_found' }
  /** The vendor cannot be asked about this message. */
  | { readonly kind: 'unanswerable' }
  /** The account's credential may not ask. That says nothing about whether it may send. */
  | { readonly kind: 'forbidden'; readonly failure: Failure }
  /** No answer about the message: no capacity, no service. `retryAfterMs` is the vendor's wish. */
  | { readonly kind: 'unanswered'; readonly failure: Failure; readonly retryAfterMs?: number };

/** Its message is the one that was asked about, whatever the answer names. */
export type LookupReport = Omit<ParsedReceipt, 'reference' | 'providerMessageId'>;

/**
 * How fast one account is asked: a small part of what the vendor allows it, as its messages are sent within the same
 * limit.
 */
export type LookupPace = {
  /** Between two questions in the long run, in milliseconds. */
  readonly everyMs: number;
  /** Questions at once. */
  readonly atOnce: 1 | 2 | 3 | 4;
};

/** Fit for vendors that allow tens of requests a second, or name no limit and answer 429 when it is reached. */
export const USUAL_PACE: LookupPace = { everyMs: 1_000, atOnce: 4 };

/** How a provider is asked about one message. */
export type LookupDefinition<Config, Secrets> = {
  /** `id`: only by the vendor's id. `reference`: by ours too, so that a call without an answer can be cleared up. */
  readonly by: 'id' | 'reference';
  readonly pace: LookupPace;
  /** Asks once. Never asked without the vendor's id where `by` is `id`. */
  ask(
    question: LookupQuestion,
    account: { readonly config: Config; readonly secrets: Secrets },
    context: ProviderContext,
  ): Promise<LookupAnswer>;
};

/** What differs from vendor to vendor of one question by HTTP. */
export type LookupExchange = {
  readonly request: HttpRequest;
  readonly codes: CodeTable;
  /** Finds the vendor's code and text in the parsed body of a refusal. */
  readonly readError: (body: unknown) => VendorError;
  /** Reads the parsed body of a success; undefined where it is not the API's answer. */
  readonly read: (body: unknown) => LookupAnswer | undefined;
  /** No failure may repeat these. */
  readonly hidden: readonly string[];
};

/** Asks by one HTTP request. 404 and 410 are the vendor's way of not knowing a message. */
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
    // A page of a proxy says nothing about the message.
    return parseJson(result.text) === undefined && result.text !== ''
      ? { kind: 'unanswered', failure }
      : { kind: 'not_found' };
  if (classified.meaning.class === 'auth_or_config') return { kind: 'forbidden', failure };
  if (!classified.meaning.retry) return { kind: 'unanswerable' };
  const wait = retryAfterMs(result.headers['retry-after'], context.now());
  return { kind: 'unanswered', failure, ...(wait === undefined ? {} : { retryAfterMs: wait }) };
}

/** A code that ends a message ends no question: there it is the status that tells whether asking again may help. */
function judge(response: Response, { codes, readError }: LookupExchange): ClassifiedError {
  const byCode = classify(response, codes, readError);
  return byCode.meaning.retry ? byCode : classify(response, {}, readError);
}

/** A path's part: what a vendor has called a message may hold anything. */
export function pathPart(id: string): string {
  return encodeURIComponent(id.toWellFormed());
}

/** A part of dots alone is a step upwards to whoever reads the path, however it is encoded: it names no message. */
function isPlain(url: string): boolean {
  return !/\/(?:\.|%2e){1,2}(?:[/?]|$)/i.test(url);
}
