import { flatCopy } from '../text/flat-copy.ts';
import { isUuid } from '../storage/ids.ts';
import { PRIORITIES } from '../message/message-options.ts';

/** A wake-up names a message and its lane. Its only effect is that the worker queries the database. */
export type Wake = {
  readonly seq: number;
  readonly tenantId: string;
  /** The account that was chosen at acceptance; `NO_ACCOUNT` if none is called. */
  readonly accountId: string;
  readonly priority: number;
};

/**
 * Replaces the priority in a wake-up that names no message: receipt calls of vendors have been stored. Its only effect is that
 * one worker queries for them.
 */
export const RECEIPT_WAKE = 'receipts';

const SEQ = /^\d{1,16}$/;

/** Maximum number of wake-ups in one message of the stream; well below the stream's message size. */
export const WAKES_PER_MESSAGE_MAX = 256;

/** Encodes one wake-up per line, so that the wake-ups of one commit are published as one message. */
export function encodeWakes(wakes: readonly Omit<Wake, 'priority'>[]): string {
  return wakes.map((wake) => `${wake.seq} ${wake.tenantId} ${wake.accountId}`).join('\n');
}

/**
 * Decodes wake-ups. Invalid lines are dropped: the sweep finds the messages that they may have named.
 * @param priorityName the last token of the subject; an unknown one counts as `normal`.
 */
export function decodeWakes(payload: string, priorityName: string): Wake[] {
  const index = PRIORITIES.findIndex((name) => name === priorityName);
  const priority = index === -1 ? PRIORITIES.indexOf('normal') : index;
  return payload.split('\n', WAKES_PER_MESSAGE_MAX).flatMap((line) => {
    const [seq, tenantId, accountId, ...more] = line.split(' ');
    if (seq === undefined || tenantId === undefined || accountId === undefined || more.length > 0) return [];
    if (!SEQ.test(seq) || !isUuid(tenantId) || !isUuid(accountId)) return [];
    // A queued wake-up must not keep its whole payload.
    return [{ seq: Number(seq), tenantId: flatCopy(tenantId), accountId: flatCopy(accountId), priority }];
  });
}
