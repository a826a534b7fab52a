import { z } from 'zod';
import { lookUp, pathPart, USUAL_PACE, type LookupAnswer, type LookupDefinition } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { secretsToRedact, basicAuthorization, vendorOrigin, type Account } from './account.ts';
import { readError } from './messages.ts';
import { TWILIO_CODES } from './outcomes.ts';
import { meaningOf } from './receipts.ts';

const Message = z.looseObject({
  status: z.string().min(1),
  error_code: z.union([z.number(), z.string()]).nullish().catch(undefined),
  date_updated: z.string().nullish().catch(undefined),
});

/**
 * https://www.twilio.com/docs/messaging/api/message-resource#fetch-a-message-resource. Twilio cannot search by our
 * reference, so a message whose call got no answer cannot be found. Twilio limits concurrent requests and documents no
 * number (https://www.twilio.com/docs/api/errors/20429).
 */
export const twilioLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: USUAL_PACE,
  ask({ providerMessageId }, account, context) {
    const { accountSid } = account.config;
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${context.origin(vendorOrigin(account))}/2010-04-01/Accounts/${accountSid}/Messages/${pathPart(providerMessageId ?? '')}.json`,
          headers: { authorization: basicAuthorization(account), accept: 'application/json' },
        },
        codes: TWILIO_CODES,
        readError,
        read,
        hidden: secretsToRedact(account),
      },
      context,
    );
  },
};

function read(body: unknown): LookupAnswer | undefined {
  const message = Message.safeParse(body).data;
  if (message === undefined) return undefined;
  const { status, error_code: code, date_updated: date } = message;
  const at = Date.parse(date ?? '');
  return {
    kind: 'found',
    reports: [
      {
        providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
        ...meaningOf(status, code == null ? null : String(code)),
        ...(Number.isNaN(at) ? {} : { at }),
      },
    ],
  };
}
