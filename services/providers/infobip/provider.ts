import type { OutboundFor } from '#core/domain/content.ts';
import type { Outcome } from '#core/domain/outcome.ts';
import { transient } from '../classify-error.ts';
import { defineProvider, type SecretRoute } from '../provider.ts';
import { whatsappTexts } from '../whatsapp-texts.ts';
import { secrets, smsConfig, whatsappConfig, withoutPlus, type Account } from './account.ts';
import { wasRejectedBefore } from './duplicates.ts';
import { checkCredential, postMessage, type InfobipMessage } from './messages.ts';
import { infobipSmsReceipts, infobipWhatsappReceipts } from './receipts.ts';
import { infobipContent } from './whatsapp-content.ts';

/** Of 25 parts, https://www.infobip.com/docs/essentials/response-status-and-error-codes: REJECTED_MESSAGE_TOO_LONG. */
const SMS_CHARACTERS_MAX = 25 * 153;
const VALIDITY_S_MAX = 48 * 3_600;
/** How many messages of one id may have been rejected before it is given up. */
const IDS_MAX = 4;

const secretRoute: SecretRoute<Account['config']> = { baseUrl: true, from: false };

const sms = defineProvider({
  id: 'infobip',
  channel: 'sms',
  name: 'Infobip SMS',
  dedupe: 'key',
  receipts: infobipSmsReceipts,
  bodyCharactersMax: SMS_CHARACTERS_MAX,
  config: smsConfig,
  secrets,
  secretRoute,
  verify: checkCredential,

  async send(message, account, context): Promise<Outcome> {
    for (let count = 1; count <= IDS_MAX; count += 1) {
      // The same ids in the same order each time, so that no message goes out twice.
      const messageId = count === 1 ? message.id : `${message.id}-${count}`;
      const { outcome, isDuplicate } = await postMessage(
        smsMessage(message, messageId, account, context.now()),
        account,
        context,
      );
      if (!isDuplicate || !(await wasRejectedBefore(messageId, account, context))) return outcome;
    }
    const { class: failureClass, code } = transient('provider_unavailable', 'message_ids_used_up');
    return { kind: 'rejected_transient', failure: { class: failureClass, code } };
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
          options: { validityPeriod: { amount, timeUnit: 'SECONDS' } },
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
  bodyCharactersMax: 4_096,
  config: whatsappConfig,
  secrets,
  secretRoute,
  verify: checkCredential,

  async send(message, account, context): Promise<Outcome> {
    const parts = infobipContent(message.content);
    if (parts.kind === 'unsupported') return { kind: 'rejected_permanent', failure: parts.failure };
    const one = {
      from: withoutPlus(message.from ?? account.config.from),
      to: withoutPlus(message.to),
      messageId: message.id,
      content: parts.content,
      callbackData: message.id,
      ...(message.receiptUrl === undefined ? {} : { notifyUrl: message.receiptUrl }),
    };
    const { outcome } = await postMessage(
      {
        ...message,
        path: `/whatsapp/1/message/${parts.resource}`,
        body: parts.resource === 'template' ? { messages: [one] } : one,
        messageId: message.id,
        texts: whatsappTexts(message.content),
      },
      account,
      context,
    );
    return outcome;
  },
});

export default [sms, whatsapp] as const;
