import { z } from 'zod';
import { lookUp, pathPart, type LookupAnswer, type LookupDefinition, type LookupPace } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { secretStrings } from '../redact.ts';
import { authorization, ORIGIN, type Account } from './account.ts';
import { readError } from './errors.ts';
import { RESEND_ERRORS } from './outcomes.ts';
import { meaningOf } from './receipts.ts';

/**
 * A team may make two to five requests a second in all, sends among them, whatever the number of its keys
 * (https://resend.com/docs/api-reference/rate-limit): a twentieth of that.
 */
const PACE: LookupPace = { everyMs: 10_000, atOnce: 1 };

const Email = z.looseObject({ id: z.string(), last_event: z.string().min(1) });

/** What the recipient did with a mail, who has it then. */
const ENGAGED: ReadonlySet<string> = new Set(['opened', 'clicked', 'complained']);

/**
 * https://resend.com/docs/api-reference/emails/retrieve-email: the last event alone, without its time and its reason. A key for
 * sending alone may not ask.
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
  const event = Email.safeParse(body).data?.last_event;
  if (event === undefined) return undefined;
  const report = {
    providerStatus: event.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf({ type: event === 'canceled' ? 'email.failed' : `email.${event}`, data: {} }),
    ...(ENGAGED.has(event) ? { state: 'delivered' as const } : {}),
  };
  return { kind: 'found', reports: [report] };
}
