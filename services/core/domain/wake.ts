import { isUuid } from './ids.ts';
import { PRIORITIES } from './message-options.ts';

/** A wake-up names a message and its lane. It makes the worker query the database and has no other effect. */
export type Wake = {
  readonly seq: number;
  readonly tenantId: string;
  /** The account that was chosen at acceptance; `NO_ACCOUNT` where none is called. */
  readonly accountId: string;
  readonly priority: number;
};

/**
 * Stands in the place of a priority where no message is named: calls of vendors have been stored. It makes one worker look
 * for them, and has no other effect.
 */
export const RECEIPT_WAKE = 'receipts';

const SEQ = /^\d{1,16}$/;

/** Wake-ups that one message of the stream carries at most; well below the stream's message size. */
export const WAKES_PER_MESSAGE_MAX = 256;

/** One line a wake-up, so that those of one commit travel as one message. */
export function encodeWakes(wakes: readonly Omit<Wake, 'priority'>[]): string {
  return wakes.map((wake) => `${wake.seq} ${wake.tenantId} ${wake.accountId}`).join('\n');
}

/**
 * Lines that are no wake-up are left out: the sweep finds the messages they may have meant.
 * @param priorityName The last token of the subject; anything unknown counts as `normal`.
 */
export function decodeWakes(payload: string, priorityName: string): Wake[] {
  const index = PRIORITIES.findIndex((name) => name === priorityName);
  const priority = index === -1 ? PRIORITIES.indexOf('normal') : index;
  return payload.split('\n', WAKES_PER_MESSAGE_MAX).flatMap((line) => {
    const [seq, tenantId, accountId, ...more] = line.split(' ');
    if (seq === undefined || tenantId === undefined || accountId === undefined || more.length > 0) return [];
    if (!SEQ.test(seq) || !isUuid(tenantId) || !isUuid(accountId)) return [];
    return [{ seq: Number(seq), tenantId, accountId, priority }];
  });
}
