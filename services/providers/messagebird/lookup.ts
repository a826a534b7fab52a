import { z } from 'zod';
import { lookUp, pathPart, USUAL_PACE, type LookupAnswer, type LookupDefinition } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { secretStrings } from '../redact.ts';
import { headersOf, ORIGIN, type Account } from './account.ts';
import { readError } from './errors.ts';
import { MESSAGEBIRD_ERRORS } from './outcomes.ts';
import { meaningOf } from './receipts.ts';

const text = z.string().nullish().catch(undefined);
const Message = z.looseObject({
  recipients: z.looseObject({
    items: z
      .array(
        z.looseObject({
          status: z.string().min(1),
          statusDatetime: text,
          statusReason: text,
          statusErrorCode: z.union([z.string(), z.number()]).nullish().catch(undefined),
        }),
      )
      .min(1),
  }),
});

/**
 * https://developers.messagebird.com/api/sms-messaging/#view-a-message. Neither a search of the list by reference nor a
 * request limit is documented.
 */
export const messagebirdLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: USUAL_PACE,
  ask({ providerMessageId }, account, context) {
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${context.origin(ORIGIN)}/messages/${pathPart(providerMessageId ?? '')}`,
          headers: headersOf(account),
        },
        codes: MESSAGEBIRD_ERRORS,
        readError,
        read,
        hidden: secretStrings(account.secrets),
      },
      context,
    );
  },
};

/** Each message has one recipient. */
function read(body: unknown): LookupAnswer | undefined {
  const recipient = Message.safeParse(body).data?.recipients.items[0];
  if (recipient === undefined) return undefined;
  const { status, statusDatetime, statusReason, statusErrorCode: code } = recipient;
  const at = Date.parse(statusDatetime ?? '');
  const report = {
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(status, code == null ? null : String(code), statusReason ?? null),
  };
  return { kind: 'found', reports: [report] };
}
