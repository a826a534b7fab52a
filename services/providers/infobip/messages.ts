import { z } from 'zod';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ProviderContext, Verification } from '../provider.ts';
import {
  failureOf,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { secretsToRedact, authorization, vendorOrigin, type Account } from './account.ts';
import { isFailed, judge, readTaken, refusedMessage } from './answers.ts';
import { DUPLICATE } from './outcomes.ts';

const BalanceBody = z.looseObject({ balance: z.number() });

/** One request with one message, for any channel. */
export type InfobipMessage = Pick<OutboundMessage, 'to' | 'from' | 'receiptUrl'> & {
  /** Path of the resource. */
  readonly path: string;
  readonly body: unknown;
  /** The id assigned to the message. */
  readonly messageId: string;
  /** Texts of the content that must not appear in an error. */
  readonly texts: readonly string[];
};

export type Posted = {
  readonly outcome: Outcome;
  /** Infobip already had a message with this id; the outcome treats that message as this one. */
  readonly isDuplicate: boolean;
};

export async function postMessage(
  message: InfobipMessage,
  account: Account,
  context: ProviderContext,
): Promise<Posted> {
  const result = await context.http({
    method: 'POST',
    url: `${context.origin(vendorOrigin(account))}${message.path}`,
    isTenantHost: true,
    headers: { ...authorization(account), 'content-type': 'application/json' },
    body: JSON.stringify(message.body),
  });
  const fresh = (outcome: Outcome): Posted => ({ outcome, isDuplicate: false });
  if (result.kind !== 'response') return fresh(outcomeWithoutResponse(result));
  const hidden = [...secretsToRedact(account), message.to, ...message.texts, message.receiptUrl ?? ''];
  if (!isSuccess(result)) return fresh(outcomeOfRefusal(result, judge(result), hidden, context.epochMs()));
  const taken = readTaken(result);
  if (taken === undefined) return fresh(outcomeOfUnreadable(result));
  const isDuplicate = taken.status.id === DUPLICATE;
  if (isFailed(taken.status) && !isDuplicate)
    return fresh(refusedMessage(result, taken.status, hidden, context.epochMs()));
  const outcome: Outcome = {
    kind: 'accepted',
    providerMessageId: isDuplicate ? message.messageId : taken.messageId,
    httpStatus: result.status,
    ...(message.from === undefined ? { sender: account.config.from } : {}),
  };
  return { outcome, isDuplicate };
}

/** Infobip has no call that only checks the key; every account may read its balance, so the check reads that. */
export async function checkCredential(account: Account, context: ProviderContext): Promise<Verification> {
  const result = await context.http({
    method: 'GET',
    url: `${context.origin(vendorOrigin(account))}/account/1/balance`,
    isTenantHost: true,
    headers: authorization(account),
  });
  if (result.kind !== 'response') return verificationUnknown(result);
  if (!isSuccess(result)) {
    const [classified, hidden] = [judge(result), secretsToRedact(account)];
    // Infobip recognises a key that may only send and denies it the balance.
    return result.status === 403
      ? { kind: 'unknown', failure: failureOf(result, classified, hidden) }
      : verificationOfRefusal(result, classified, hidden);
  }
  return BalanceBody.safeParse(parseJson(result.text)).success
    ? { kind: 'valid' }
    : verificationUnknown(result);
}
