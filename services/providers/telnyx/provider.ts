import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { withReference } from '../callback-reference.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { config, headersOf, secretsToRedact, ORIGIN, secrets, type Account } from './account.ts';
import { classifyRefusal, readError } from './errors.ts';
import { telnyxLookup } from './lookup.ts';
import { TELNYX_CODES } from './outcomes.ts';
import { telnyxReceipts } from './receipts.ts';
import { telnyxGuide } from './guide.ts';

const Created = z.looseObject({
  data: z.looseObject({
    id: z.string().min(1),
    from: z
      .looseObject({ phone_number: z.string().min(1) })
      .optional()
      .catch(undefined),
  }),
});
const BalanceBody = z.looseObject({ data: z.looseObject({}) });

export default defineProvider({
  id: 'telnyx',
  channel: 'sms',
  name: 'Telnyx Messaging',
  // Telnyx knows an Idempotency-Key, but not for messages: only for the resources whose reference names it,
  // https://developers.telnyx.com/docs/development/api-fundamentals/idempotency.
  dedupe: 'none',
  receipts: telnyxReceipts,
  lookup: telnyxLookup,
  // Usually ten parts, but the limit depends on the route to the recipient and on the profile.
  bodyCharactersMax: null,
  guide: telnyxGuide,
  config,
  secrets,
  secretRoute: { from: false, messagingProfileId: false, publicKey: false },

  async send(message, account, context): Promise<Outcome> {
    const sender = message.from ?? account.config.from;
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ORIGIN)}/v2/messages`,
      headers: { ...headersOf(account), 'content-type': 'application/json' },
      body: JSON.stringify(payload(message, sender, account.config)),
    });
    const now = context.epochMs();
    return outcomeOfSend(result, {
      judge: (response) => classifyRefusal(response, now),
      hidden: [...secretsToRedact(account), message.to, message.content.body, message.receiptUrl ?? ''],
      now,
      accepted: ({ text }) => {
        const created = Created.safeParse(parseJson(text)).data?.data;
        // A profile picks a number from its pool; the response names it.
        const used = created?.from?.phone_number ?? sender ?? account.config.messagingProfileId;
        return created && { providerMessageId: created.id, sender: used };
      },
    });
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(ORIGIN)}/v2/balance`,
      headers: headersOf(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(
        result,
        classify(result, TELNYX_CODES, readError),
        secretsToRedact(credentials),
      );
    return BalanceBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});

/** The API has no expiry field; Telnyx holds a message for four hours at most. */
function payload(
  { id, to, content, receiptUrl }: OutboundFor<'sms'>,
  sender: string | undefined,
  { messagingProfileId }: Account['config'],
) {
  return {
    ...(sender === undefined ? {} : { from: sender }),
    ...(messagingProfileId === undefined ? {} : { messaging_profile_id: messagingProfileId }),
    to,
    text: content.body,
    type: 'SMS',
    ...(receiptUrl === undefined ? {} : { webhook_url: withReference(receiptUrl, id) }),
  };
}
