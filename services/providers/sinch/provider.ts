import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { batchesOf, config, headersOf, secrets } from './account.ts';
import { readError } from './errors.ts';
import { sinchLookup } from './lookup.ts';
import { SINCH_ERRORS } from './outcomes.ts';
import { batch, BODY_CHARACTERS_MAX } from './payload.ts';
import { sinchReceipts } from './receipts.ts';
import { sinchGuide } from './guide.ts';

const Created = z.looseObject({
  id: z.string().min(1),
  from: z.string().min(1).optional().catch(undefined),
});
const BatchesBody = z.looseObject({ batches: z.array(z.unknown()) });

export default defineProvider({
  id: 'sinch',
  channel: 'sms',
  name: 'Sinch SMS',
  dedupe: 'lookup',
  receipts: sinchReceipts,
  lookup: sinchLookup,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  guide: sinchGuide,
  config,
  secrets,
  secretRoute: { servicePlanId: true, region: true, from: false },

  async send(message, account, context): Promise<Outcome> {
    const sender = message.from ?? account.config.from;
    const result = await context.http({
      method: 'POST',
      url: batchesOf(account, context.origin),
      headers: { ...headersOf(account), 'content-type': 'application/json' },
      body: JSON.stringify(batch(message, sender, context.epochMs())),
    });
    return outcomeOfSend(result, {
      judge: (response) => classify(response, SINCH_ERRORS, readError),
      hidden: [...secretStrings(account.secrets), message.to, message.content.body, message.receiptUrl ?? ''],
      now: context.epochMs(),
      accepted: ({ text }) => {
        const created = Created.safeParse(parseJson(text)).data;
        return created && { providerMessageId: created.id, sender: sender ?? created.from };
      },
    });
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${batchesOf(credentials, context.origin)}?page_size=1`,
      headers: headersOf(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(
        result,
        classify(result, SINCH_ERRORS, readError),
        secretStrings(credentials.secrets),
      );
    return BatchesBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});
