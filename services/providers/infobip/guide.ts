import type { ProviderGuide } from '../guide.ts';

const credentials = [
  'Sign in to the Infobip portal. Its start page shows the base URL of the account, which is `baseUrl`.',
  'Create an API key under Developer Tools > API Keys, and give it as `apiKey`. A key that may only send is enough; the credential check then has no result, because it asks for the balance, and a message whose first call got no answer waits for its receipt, because it asks for the log.',
];
const common = {
  documentation: 'https://www.infobip.com/docs/api',
  secretConfig: { apiKey: 'your-api-key' },
  repeated:
    'A message that is sent again after a lost answer has the same id. Infobip refuses the copy; the message then counts as accepted.',
} as const;

export const smsGuide: ProviderGuide<'sms'> = {
  documentation: common.documentation,
  credentials,
  account: {
    publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447700900000' },
    secretConfig: common.secretConfig,
  },
  fields: {
    body: '`content.text`.',
    from: '`sender`, instead of the account’s sender.',
    expiresAt: '`options.validityPeriod`: at most 48 hours.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: ['A text has at most 25 segments.', 'Infobip tries for at most 48 hours.', common.repeated],
  unsupported: ['Binary and flash messages, transliteration, link shortening and scheduling at Infobip.'],
};

export const whatsappGuide: ProviderGuide<'whatsapp'> = {
  documentation: common.documentation,
  credentials: [...credentials, 'The sender is a number under Channels and Numbers > WhatsApp > Senders.'],
  account: {
    publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+447700900000' },
    secretConfig: common.secretConfig,
  },
  fields: {
    body: '`content.text`. Only within 24 hours after the recipient’s last message.',
    template: '`templateName` and `language`; variables are a list, or an object whose keys count from 1.',
    'template.header': '`templateData.header`. A location is sent without a name and an address.',
    'template.buttons': '`templateData.buttons`, in the order of their positions.',
    media: '`content.mediaUrl`.',
    'media.caption': '`content.caption`.',
    'media.filename': '`content.filename`.',
    expiresAt: null,
  },
  messages: [
    { to: '+15551230001', body: 'Your parcel is on its way.' },
    { to: '+15551230001', template: { name: 'order_ready', language: 'en_US', variables: ['Ada', '7'] } },
    { to: '+15551230001', media: { url: 'https://www.example.com/invoice.pdf', filename: 'invoice.pdf' } },
  ],
  limits: ['A `body` has at most 4096 characters.', common.repeated],
  unsupported: [
    'Interactive messages, contacts, and failover to SMS at Infobip.',
    'Templates whose variables have names other than 1, 2 and so on are refused before any call.',
  ],
};
