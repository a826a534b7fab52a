import { z } from 'zod';
import { lookUp, pathPart, USUAL_PACE, type LookupAnswer, type LookupDefinition } from '../lookup.ts';
import { PROVIDER_STATUS_MAX } from '../receipt.ts';
import { headersOf, secretsToRedact, ORIGIN, type Account } from './account.ts';
import { readError } from './errors.ts';
import { TELNYX_CODES } from './outcomes.ts';
import { meaningOf } from './receipts.ts';

const Message = z.looseObject({
  data: z.looseObject({
    to: z
      .array(z.looseObject({ status: z.string().min(1), updated_at: z.string().nullish().catch(undefined) }))
      .min(1),
    completed_at: z.string().nullish().catch(undefined),
    errors: z
      .array(z.looseObject({ code: z.union([z.string(), z.number()]) }))
      .optional()
      .catch(undefined),
  }),
});

/**
 * https://developers.telnyx.com/api-reference/messages/retrieve-a-message: messages are kept for ten days and are found
 * only by Telnyx's id. An account may send 50 messages a second; the limit of its other requests appears only in each
 * response (https://developers.telnyx.com/development/api-fundamentals/reliability/rate-limiting).
 */
export const telnyxLookup: LookupDefinition<Account['config'], Account['secrets']> = {
  by: 'id',
  pace: USUAL_PACE,
  ask({ providerMessageId }, account, context) {
    return lookUp(
      {
        request: {
          method: 'GET',
          url: `${context.origin(ORIGIN)}/v2/messages/${pathPart(providerMessageId ?? '')}`,
          headers: headersOf(account),
        },
        codes: TELNYX_CODES,
        readError,
        read,
        hidden: secretsToRedact(account),
      },
      context,
    );
  },
};

function read(body: unknown): LookupAnswer | undefined {
  const message = Message.safeParse(body).data?.data;
  const recipient = message?.to[0];
  if (message === undefined || recipient === undefined) return undefined;
  const { status, updated_at: updated } = recipient;
  const at = Date.parse(message.completed_at ?? updated ?? '');
  const report = {
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(status, message.errors?.[0]?.code),
  };
  return { kind: 'found', reports: [report] };
}
