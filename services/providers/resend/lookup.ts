import { z } from 'zod';
import { lookUp, pathPart, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { secretStrings } from '../redact.ts';
import { authorization, ORIGIN, type Account } from './account.ts';
import { readError } from './errors.ts';
import { RESEND_ERRORS } from './outcomes.ts';
import { DETAILS, meaningOf } from './receipts.ts';

/**
 * A team may make ten requests a second in total by default, sends included, regardless of its number of keys
 * (https://resend.com/docs/api-reference/rate-limit). This is one hundredth of that, for teams with a lower limit.
 */
const PACE: LookupPace = { everyMs: 10_000, atOnce: 1 };

/** The answer repeats the text of the mail before its state. A mail with more text than this cannot be looked up. */
const ANSWER_BYTES_MAX = 4 * 1024 * 1024;

const Email = z.looseObject({ id: z.string(), last_event: z.string().min(1), ...DETAILS });

/** Recipient events; each implies that the mail was delivered. */
const ENGAGED: ReadonlySet<string> = new Set(['opened', 'clicked', 'complained']);

/**
 * https://resend.com/docs/api-reference/emails/retrieve-email: returns only the last event, without its time. The answer also
 * has the details of a bounce, which that page does not list. A sending-only key may not read it.
 */
export const resendLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: PACE,
  ask({ providerMessageId }, account, context) {
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${context.origin(ORIGIN)}/emails/${pathPart(providerMessageId ?? '')}`,
          headers: authorization(account),
          bodyBytesMax: ANSWER_BYTES_MAX,
        },
        codes: RESEND_ERRORS,
        readError,
        read,
        hidden: secretStrings(account.secrets),
      },
      context,
    );
  },
};

function read(body: unknown): LookupAnswer | undefined {
  const email = Email.safeParse(body).data;
  if (email === undefined) return undefined;
  const { last_event: event } = email;
  const report = {
    providerStatus: event.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf({ type: event === 'canceled' ? 'email.failed' : `email.${event}`, data: email }),
    ...(ENGAGED.has(event) ? { state: 'delivered' as const } : {}),
  };
  return { kind: 'found', reports: [report] };
}
