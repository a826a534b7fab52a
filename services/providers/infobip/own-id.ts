import { z } from 'zod';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ProviderContext } from '../provider.ts';
import { failureOf, isSuccess, parseJson } from '../classify-error.ts';
import { unreached } from '../unreached.ts';
import { isRejected, judge, Status } from './answers.ts';
import { secretsToRedact, authorization, vendorOrigin, type Account } from './account.ts';
import { postMessage, type InfobipMessage } from './messages.ts';
import { DUPLICATE } from './outcomes.ts';

/**
 * How many ids of one message may be rejected before it can no longer be sent. A message that waits for credit uses one every five
 * minutes; these last for more than three days.
 */
const IDS_MAX = 999;

const NOT_IN_LOG: Failure = { class: 'unknown', code: 'not_in_log' };
/** Not a fault of the account, which other messages may be waiting for. */
const IDS_USED_UP: Failure = { class: 'unknown', code: 'ids_used_up' };

const Logs = z.looseObject({ results: z.array(z.looseObject({ status: Status })) });

/**
 * Sends a message under our own id, so that Infobip refuses a second copy and the first one counts. If the first one was
 * itself rejected, for want of credit for example, its id may be used up, so the message takes its next id. The sequence of
 * ids is the same on every attempt, so no message is sent twice.
 * @param logs path of the channel's log of messages.
 */
export async function sendUnderOwnId(
  { id, attempt }: Pick<OutboundMessage, 'id' | 'attempt'>,
  logs: string,
  messageOf: (messageId: string) => InfobipMessage,
  account: Account,
  context: ProviderContext,
): Promise<Outcome> {
  // Each earlier attempt has used one id or none.
  return sendUnder(1, Math.min(attempt - 1, IDS_MAX));

  /** @param usedMax no higher id has been used; 0 once the last used id is known. */
  async function sendUnder(count: number, usedMax: number): Promise<Outcome> {
    const message = messageUnder(count);
    const { outcome, isDuplicate } = await postMessage(message, account, context);
    if (!isDuplicate) return outcome;
    const earlier = await findEarlier(message, logs, account, context);
    if (earlier.kind === 'unanswered') return { kind: 'ambiguous', failure: earlier.failure };
    if (earlier.kind === 'taken') return outcome;
    const isRefused = earlier.kind === 'rejected';
    // The log covers 48 hours: an id that it has no more was rejected if it has a later one.
    const last = await lastInLog(count, usedMax + 1);
    // This attempt has sent nothing, and the next one begins anew.
    if (typeof last !== 'number')
      return { kind: isRefused ? 'rejected_transient' : 'ambiguous', failure: last };
    if (last > count) return sendUnder(last, 0);
    if (!isRefused) return { kind: 'ambiguous', failure: NOT_IN_LOG };
    return count < IDS_MAX ? sendUnder(count + 1, 0) : { kind: 'rejected_permanent', failure: IDS_USED_UP };
  }

  /**
   * Finds the last id in the log by halves, because a call for each of hundreds of ids would exceed the attempt's deadline. The
   * highest one is tried first: usually each attempt has used an id.
   * @param known has been used.
   * @param unknown has not, like all higher ones, as far as the log says.
   */
  async function lastInLog(known: number, unknown: number, tried = unknown - 1): Promise<number | Failure> {
    if (unknown - known <= 1) return known;
    const earlier = await findEarlier(messageUnder(tried), logs, account, context);
    if (earlier.kind === 'unanswered') return earlier.failure;
    const [low, high] = earlier.kind === 'unknown' ? [known, tried] : [tried, unknown];
    return lastInLog(low, high, Math.floor((low + high) / 2));
  }

  function messageUnder(count: number): InfobipMessage {
    return messageOf(count === 1 ? id : `${id}-${count}`);
  }
}

/** Returns our id of the message that was sent under this id. */
export function ownIdOf(messageId: string): string {
  const [, id, count] = /^(.+)-([1-9]\d{0,2})$/.exec(messageId) ?? [];
  return id !== undefined && Number(count) >= 2 ? id : messageId;
}

type Earlier =
  | { readonly kind: 'rejected' }
  /** Accepted. */
  | { readonly kind: 'taken' }
  /** The log does not have the message, or does not have it yet. Infobip refuses every copy, so it can be sent again to ask again. */
  | { readonly kind: 'unknown' }
  /** The log could not be read, as by a key that may only send. */
  | { readonly kind: 'unanswered'; readonly failure: Failure };

/** Finds out what became of the message that used this id before. */
async function findEarlier(
  { messageId }: InfobipMessage,
  logs: string,
  account: Account,
  context: ProviderContext,
): Promise<Earlier> {
  const result = await context.http({
    method: 'GET',
    url: `${context.origin(vendorOrigin(account))}${logs}?messageId=${encodeURIComponent(messageId)}`,
    isTenantHost: true,
    headers: authorization(account),
  });
  if (result.kind !== 'response') return { kind: 'unanswered', failure: unreached(result.code) };
  if (!isSuccess(result)) {
    return { kind: 'unanswered', failure: failureOf(result, judge(result), secretsToRedact(account)) };
  }
  const statuses = Logs.safeParse(parseJson(result.text)).data?.results.map(({ status }) => status) ?? [];
  // The log may list the refused duplicate too, under the same id.
  const found = statuses.filter(({ id }) => id !== DUPLICATE);
  if (found.length === 0) return { kind: 'unknown' };
  return { kind: found.every(isRejected) ? 'rejected' : 'taken' };
}
