import type { Outcome } from '#core/domain/sending/outcome.ts';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import { failureOf, isSuccess, type ClassifiedError, type Response } from './classify-error.ts';
import type { HttpResult } from './provider.ts';
import { unreached } from './unreached.ts';

/** How an adapter reads the answer to a send. */
export type SendAnswer = {
  /** Classifies a non-success response. */
  readonly judge: (response: Response) => ClassifiedError;
  /** Values that the vendor may repeat in an error text and that must not be stored. */
  readonly hidden: readonly string[];
  readonly now: number;
  /** Reads a success response; undefined if its body is not the API's answer. */
  readonly accepted: (response: Response) => Accepted | undefined;
};

type Accepted = { readonly providerMessageId: string | null; readonly sender?: string | undefined };

/** Returns the outcome of a send whose HTTP status tells a refusal from a success. */
export function outcomeOfSend(result: HttpResult, { judge, hidden, now, accepted }: SendAnswer): Outcome {
  if (result.kind !== 'response') return outcomeWithoutResponse(result);
  if (!isSuccess(result)) return outcomeOfRefusal(result, judge(result), hidden, now);
  const read = accepted(result);
  if (read === undefined) return outcomeOfUnreadable(result);
  const { providerMessageId, sender } = read;
  return {
    kind: 'accepted',
    providerMessageId,
    httpStatus: result.status,
    ...(sender === undefined ? {} : { sender }),
  };
}

/** Turns a classified answer to a send into an outcome, with the retry delay that the provider asked for. */
export function outcomeOfRefusal(
  response: Response,
  { meaning, vendorError, waitMs }: ClassifiedError,
  hidden: readonly string[],
  now: number,
): Exclude<Outcome, { kind: 'accepted' }> {
  const failure = failureOf(response, { meaning, vendorError }, hidden);
  if (meaning.mayBeAccepted) return { kind: 'ambiguous', failure };
  if (!meaning.retry) return { kind: 'rejected_permanent', failure };
  const wait = retryAfterMs(response.headers['retry-after'], now) ?? waitMs;
  return { kind: 'rejected_transient', failure, ...(wait === undefined ? {} : { retryAfterMs: wait }) };
}

/**
 * Returns the outcome of an exchange that ended without a response. A request that the client cannot send is refused for good:
 * the message alone is at fault, and the next attempt would make the same request.
 */
export function outcomeWithoutResponse(result: Exclude<HttpResult, { kind: 'response' }>): Outcome {
  if (result.code === 'invalid_request') {
    return { kind: 'rejected_permanent', failure: { class: 'content_rejected', code: result.code } };
  }
  const failure = unreached(result.code);
  return result.kind === 'not_sent'
    ? { kind: 'rejected_transient', failure }
    : { kind: 'ambiguous', failure };
}

/**
 * Returns the outcome of a success status whose body is not the API's answer: whether the provider accepted the message is
 * unknown.
 */
export function outcomeOfUnreadable(response: Response): Outcome {
  return {
    kind: 'ambiguous',
    failure: { ...unreached('unreadable_response'), httpStatus: response.status },
  };
}
