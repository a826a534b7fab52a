import { contentRefusal } from '../content-limits.ts';
import { checkDlt, dltFields, dltRoute, type DltConfig } from '../india-dlt.ts';
import { defineProvider, type SecretRoute } from '../provider.ts';
import { whatsappTexts } from '../whatsapp-texts.ts';
import { checkAccount, secrets, smsConfig, whatsappConfig, type Account } from './account.ts';
import { checkCredential } from './credential.ts';
import { sendByMessages } from './messages-api.ts';
import { vonageSmsReceipts, vonageWhatsappReceipts } from './receipts.ts';
import { sendBySms } from './sms-api.ts';
import { whatsappFields } from './whatsapp-content.ts';
import { smsGuide, whatsappGuide } from './guide.ts';

/** The limit of the SMS API, which accepts longer texts than the Messages API. */
const SMS_CHARACTERS_MAX = 3_200;
const MESSAGES_API = { name: 'The Messages API of Vonage', bodyCharactersMax: 1_000 };
const TTL_S_MIN = 20;
const TTL_S_MAX = 604_800;

const secretRoute: SecretRoute<Omit<Account['config'], keyof DltConfig>> = {
  apiKey: true,
  applicationId: true,
  region: true,
  from: false,
};

const sms = defineProvider({
  id: 'vonage',
  channel: 'sms',
  name: 'Vonage SMS',
  dedupe: 'none',
  receipts: vonageSmsReceipts,
  bodyCharactersMax: SMS_CHARACTERS_MAX,
  guide: smsGuide,
  config: smsConfig,
  secrets,
  secretRoute: { ...secretRoute, api: true, signatureMethod: false, ...dltRoute },
  checkConfig: checkDlt,
  check: checkAccount,
  verify: checkCredential,

  async send(message, account, context) {
    if (account.config.api === 'sms') return sendBySms(message, account, context);
    const tooLong = contentRefusal(MESSAGES_API, message.content);
    if (tooLong !== undefined) return tooLong;
    const { body } = message.content;
    const remaining = Math.floor((message.expiresAt - context.epochMs()) / 1_000);
    const fields = {
      message_type: 'text',
      text: body,
      ttl: Math.min(Math.max(remaining, TTL_S_MIN), TTL_S_MAX),
      sms: {
        encoding_type: 'auto',
        ...dltFields(message.to, account.config, { entity: 'entity_id', template: 'content_id' }),
      },
    };
    return sendByMessages({ ...message, fields, texts: [body] }, account, context);
  },
});

const whatsapp = defineProvider({
  id: 'vonage-whatsapp',
  channel: 'whatsapp',
  name: 'Vonage for WhatsApp',
  dedupe: 'none',
  receipts: vonageWhatsappReceipts,
  bodyCharactersMax: 4_096,
  guide: whatsappGuide,
  config: whatsappConfig,
  secrets,
  secretRoute,
  check: checkAccount,
  verify: checkCredential,

  send(message, account, context) {
    const fields = whatsappFields(message.content);
    return sendByMessages({ ...message, fields, texts: whatsappTexts(message.content) }, account, context);
  },
});

export default [sms, whatsapp] as const;
