import { z } from 'zod';
import type { Failure } from '#core/domain/failure.ts';
import type { Outcome } from '#core/domain/outcome.ts';
import type { ProviderContext } from '../provider.ts';
import { failureOf, isSuccess, parseJson } from '../classify-error.ts';
import { unreached } from '../unreached.ts';
import { isRejected, judge, refusedMessage, Status } from './answers.ts';
import { secretsToRedact, authorization, vendorOrigin, type Account } from './account.ts';
import { postMessage, type InfobipMessage } from './messages.ts';
import { DUPLICATE } from './outcomes.ts';

/** How many ids of one message may be rejected before it can no longer be sent: one digit. */
const IDS_MAX = 9;

const NOT_IN_LOG: Failure = { class: 'unknown', code: 'not_in_log' };

const Logs = z.looseObject({ results: z.array(z.looseObject({ status: Status })) });

/**
 * Sends a message under our own id, so that Infobip refuses a second copy and the first one counts. If the first one was
 * itself rejected, for want of credit for example, its id may be used up, so the message takes its next id. The sequence of
 * ids is the same on every attempt, so no message is sent twice.
 * @param logs path of the channel's log of messages.
 */
export async function sendUnderOwnId(
  id: string,
  logs: string,
  messageOf: (messageId: string) => InfobipMessage,
  account: Account,
  context: ProviderContext,
): Promise<Outcome> {
  return sendUnder(1);

  async function sendUnder(count: number): Promise<Outcome> {
    const messageId = count === 1 ? id : `${id}-${count}`;
    const message = messageOf(messageId);
    const { outcome, isDuplicate } = await postMessage(message, account, context);
    if (!isDuplicate) return outcome;
    const earlier = await findEarlier(message, logs, account, context);
    if (earlier.kind === 'unanswered') return { kind: 'ambiguous', failure: earlier.failure };
    if (earlier.kind === 'taken') return outcome;
    // If no id is left, the message waits or ends as its last rejection says.
    return count < IDS_MAX ? sendUnder(count + 1) : earlier.outcome;
  }
}

/** Returns our id of the message that was sent under this id. */
export function ownIdOf(messageId: string): string {
  const [, id, count] = /^(.+)-(\d)$/.exec(messageId) ?? [];
  return id !== undefined && Number(count) >= 2 && Number(count) <= IDS_MAX ? id : messageId;
}

type Earlier =
  | { readonly kind: 'rejected'; readonly outcome: Outcome }
  /** Accepted. */
  | { readonly kind: 'taken' }
  /**
   * The log does not say: it could not be read, as by a key that may only send, or does not have the message yet. Infobip refuses
   * every copy, so the message can be sent again to ask again.
   */
  | { readonly kind: 'unanswered'; readonly failure: Failure };

/** Finds out what became of the message that used this id before. */
async function findEarlier(
  { messageId, to, texts }: InfobipMessage,
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
  const [last] = found;
  if (last === undefined) return { kind: 'unanswered', failure: NOT_IN_LOG };
  if (!found.every(isRejected)) return { kind: 'taken' };
  const hidden = [...secretsToRedact(account), to, ...texts];
  return { kind: 'rejected', outcome: refusedMessage(result, last, hidden, context.now()) };
}
