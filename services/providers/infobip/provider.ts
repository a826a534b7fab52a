import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { checkDlt, dltFields, dltRoute } from '../india-dlt.ts';
import { defineProvider, type SecretRoute } from '../provider.ts';
import { whatsappTexts } from '../whatsapp-texts.ts';
import { withoutPlus } from '../without-plus.ts';
import { secrets, smsConfig, whatsappConfig, type Account } from './account.ts';
import { lookupInLogs } from './lookup.ts';
import { checkCredential, type InfobipMessage } from './messages.ts';
import { sendUnderOwnId } from './own-id.ts';
import { infobipSmsReceipts, infobipWhatsappReceipts } from './receipts.ts';
import { infobipContent } from './whatsapp-content.ts';
import { smsGuide, whatsappGuide } from './guide.ts';

/** 25 parts, https://www.infobip.com/docs/essentials/response-status-and-error-codes: REJECTED_MESSAGE_TOO_LONG. */
const SMS_CHARACTERS_MAX = 25 * 153;
const SMS_LOGS = '/sms/3/logs';
const WHATSAPP_LOGS = '/whatsapp/2/logs';
const VALIDITY_S_MAX = 48 * 3_600;

const secretRoute: SecretRoute<Pick<Account['config'], 'baseUrl' | 'from'>> = { baseUrl: true, from: false };

const sms = defineProvider({
  id: 'infobip',
  channel: 'sms',
  name: 'Infobip SMS',
  dedupe: 'key',
  receipts: infobipSmsReceipts,
  lookup: lookupInLogs(SMS_LOGS),
  bodyCharactersMax: SMS_CHARACTERS_MAX,
  guide: smsGuide,
  config: smsConfig,
  secrets,
  secretRoute: { ...secretRoute, ...dltRoute },
  checkConfig: checkDlt,
  verify: checkCredential,

  send(message, account, context) {
    const messageOf = (messageId: string) => smsMessage(message, messageId, account, context.epochMs());
    return sendUnderOwnId(message, SMS_LOGS, messageOf, account, context);
  },
});

/** https://www.infobip.com/docs/api/channels/sms/outbound-sms/send-sms-messages */
function smsMessage(
  message: OutboundFor<'sms'>,
  messageId: string,
  { config }: Account,
  now: number,
): InfobipMessage {
  const { id, to, from, content, receiptUrl, expiresAt } = message;
  const remaining = Math.max(1, Math.floor((expiresAt - now) / 1_000));
  const amount = Math.min(remaining, VALIDITY_S_MAX);
  const names = { entity: 'principalEntityId', template: 'contentTemplateId' } as const;
  const indiaDlt = dltFields(to, config, names);
  const regional = Object.keys(indiaDlt).length === 0 ? {} : { regional: { indiaDlt } };
  const delivery = receiptUrl === undefined ? {} : { delivery: { url: receiptUrl } };
  return {
    ...message,
    path: '/sms/3/messages',
    messageId,
    texts: [content.body],
    body: {
      messages: [
        {
          sender: withoutPlus(from ?? config.from),
          destinations: [{ to: withoutPlus(to), messageId }],
          content: { text: content.body },
          options: { validityPeriod: { amount, timeUnit: 'SECONDS' }, ...regional },
          webhooks: { ...delivery, contentType: 'application/json', callbackData: id },
        },
      ],
    },
  };
}

const whatsapp = defineProvider({
  id: 'infobip-whatsapp',
  channel: 'whatsapp',
  name: 'Infobip for WhatsApp',
  dedupe: 'key',
  receipts: infobipWhatsappReceipts,
  lookup: lookupInLogs(WHATSAPP_LOGS),
  bodyCharactersMax: 4_096,
  guide: whatsappGuide,
  config: whatsappConfig,
  secrets,
  secretRoute,
  verify: checkCredential,

  async send(message, account, context): Promise<Outcome> {
    const parts = infobipContent(message.content);
    if (parts.kind === 'unsupported') return { kind: 'rejected_permanent', failure: parts.failure };
    const messageOf = (messageId: string) => whatsappMessage(message, parts, messageId, account);
    return sendUnderOwnId(message, WHATSAPP_LOGS, messageOf, account, context);
  },
});

/** The API takes templates as a list of messages and every other message as a single object. */
function whatsappMessage(
  message: OutboundFor<'whatsapp'>,
  { resource, content }: { readonly resource: string; readonly content: unknown },
  messageId: string,
  { config }: Account,
): InfobipMessage {
  const one = {
    from: withoutPlus(message.from ?? config.from),
    to: withoutPlus(message.to),
    messageId,
    content,
    callbackData: message.id,
    ...(message.receiptUrl === undefined ? {} : { notifyUrl: message.receiptUrl }),
  };
  return {
    ...message,
    path: `/whatsapp/1/message/${resource}`,
    body: resource === 'template' ? { messages: [one] } : one,
    messageId,
    texts: whatsappTexts(message.content),
  };
}

export default [sms, whatsapp] as const;
