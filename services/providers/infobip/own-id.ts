import { z } from 'zod';
import type { Outcome } from '#core/domain/outcome.ts';
import type { ProviderContext } from '../provider.ts';
import { isSuccess, parseJson } from '../classify-error.ts';
import { unreached } from '../unreached.ts';
import { isRejected, Status } from './answers.ts';
import { authorization, vendorOrigin, type Account } from './account.ts';
import { postMessage, type InfobipMessage } from './messages.ts';
import { DUPLICATE } from './outcomes.ts';

/** How many ids of one message may be rejected before the attempt ends. */
const IDS_MAX = 4;

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
  for (let count = 1; count <= IDS_MAX; count += 1) {
    const messageId = count === 1 ? id : `${id}-${count}`;
    const { outcome, isDuplicate } = await postMessage(messageOf(messageId), account, context);
    if (!isDuplicate || !(await wasRejectedBefore(messageId, logs, account, context))) return outcome;
  }
  return { kind: 'rejected_transient', failure: unreached('message_ids_used_up') };
}

/** Returns our id of the message that was sent under this id. */
export function ownIdOf(messageId: string): string {
  const [, id, count] = /^(.+)-(\d)$/.exec(messageId) ?? [];
  return id !== undefined && Number(count) >= 2 && Number(count) <= IDS_MAX ? id : messageId;
}

/** Returns whether the message that used this id before was rejected. False when the log does not say. */
async function wasRejectedBefore(
  messageId: string,
  logs: string,
  account: Account,
  context: ProviderContext,
): Promise<boolean> {
  const result = await context.http({
    method: 'GET',
    url: `${context.origin(vendorOrigin(account))}${logs}?messageId=${encodeURIComponent(messageId)}`,
    isTenantHost: true,
    headers: authorization(account),
  });
  if (result.kind !== 'response' || !isSuccess(result)) return false;
  const statuses = Logs.safeParse(parseJson(result.text)).data?.results.map(({ status }) => status) ?? [];
  // The log may list the refused duplicate too, under the same id.
  const earlier = statuses.filter(({ id }) => id !== DUPLICATE);
  return earlier.length > 0 && earlier.every(isRejected);
}
