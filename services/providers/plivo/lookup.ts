import { z } from 'zod';
import { lookUp, pathPart, USUAL_PACE, type LookupAnswer, type LookupDefinition } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { headersOf, secretsToRedact, resourceOf, type Account } from './account.ts';
import { readError } from './errors.ts';
import { meaningOf } from './receipts.ts';

const Message = z.looseObject({
  message_state: z.string().min(1),
  error_code: z.union([z.string(), z.number()]).nullish().catch(undefined),
});

/**
 * https://www.plivo.com/docs/messaging/api/message/retrieve-a-message. The record does not say when its state changed, and
 * the list cannot be searched by our reference. An account may make 300 requests in five seconds
 * (https://www.plivo.com/docs/account/api/).
 */
export const plivoLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: USUAL_PACE,
  ask({ providerMessageId }, account, context) {
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${resourceOf(account, context.origin)}Message/${pathPart(providerMessageId ?? '')}/`,
          headers: headersOf(account),
        },
        codes: {},
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
  const { message_state: status, error_code: code } = message;
  const report = {
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf(status, code == null ? null : String(code)),
  };
  return { kind: 'found', reports: [report] };
}
