import { defineProvider } from '../provider.ts';
import { whatsappTexts } from '../whatsapp-texts.ts';
import { checkAccount, secretRoute, secrets, smsConfig, whatsappConfig } from './account.ts';
import { twilioLookup } from './lookup.ts';
import { checkCredential, createMessage } from './messages.ts';
import { twilioReceipts } from './receipts.ts';
import { whatsappForm } from './whatsapp-content.ts';
import { smsGuide, whatsappGuide } from './guide.ts';

/** The limit on every channel, https://www.twilio.com/docs/api/errors/21617. */
const BODY_CHARACTERS_MAX = 1_600;

const sms = defineProvider({
  id: 'twilio',
  channel: 'sms',
  name: 'Twilio Programmable Messaging',
  dedupe: 'none',
  receipts: twilioReceipts,
  lookup: twilioLookup,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  guide: smsGuide,
  config: smsConfig,
  secrets,
  secretRoute,
  check: checkAccount,
  verify: checkCredential,

  send(message, account, context) {
    const { body } = message.content;
    return createMessage(
      { ...message, prefix: '', content: { Body: body }, texts: [body] },
      account,
      context,
    );
  },
});

const whatsapp = defineProvider({
  id: 'twilio-whatsapp',
  channel: 'whatsapp',
  name: 'Twilio for WhatsApp',
  dedupe: 'none',
  receipts: twilioReceipts,
  lookup: twilioLookup,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  guide: whatsappGuide,
  config: whatsappConfig,
  secrets,
  secretRoute,
  check: checkAccount,
  verify: checkCredential,

  async send(message, account, context) {
    const content = whatsappForm(message.content);
    if (content.kind === 'unsupported') return { kind: 'rejected_permanent', failure: content.failure };
    const texts = whatsappTexts(message.content);
    return createMessage({ ...message, prefix: 'whatsapp:', content: content.form, texts }, account, context);
  },
});

export default [sms, whatsapp] as const;
