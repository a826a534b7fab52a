import { PEM_EXAMPLE, type ProviderGuide } from '../guide.ts';

const credentials = [
  'Open the Vonage API Dashboard. `apiKey` and `apiSecret` are under API settings.',
  'For the Messages API create an application under Applications: enable the capability Messages, generate a key pair, and keep the private key that the page offers for download. The id of the application is `applicationId`, the content of the file `privateKey`.',
  'The signature secret under API settings is `signatureSecret`.',
];
const account = {
  publicConfig: {
    apiKey: 'abcd1234',
    from: '+447700900000',
    applicationId: '00000000-0000-4000-8000-000000000001',
  },
  secretConfig: { apiSecret: 'your-api-secret', privateKey: PEM_EXAMPLE },
};

export const smsGuide: ProviderGuide<'sms'> = {
  documentation: 'https://developer.vonage.com/en/api/messages',
  credentials,
  account,
  fields: {
    body: '`text`.',
    from: '`from`, without the plus of a number, instead of the account’s sender.',
    expiresAt: '`ttl`: at least 20 seconds, at most 7 days.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'The Messages API accepts at most 1000 characters, the SMS API 3200.',
    'With the SMS API a long text has an id and receipts for each of its segments; the record names the first id.',
  ],
  unsupported: ['MMS, RCS and the other channels of the Messages API.'],
};

export const whatsappGuide: ProviderGuide<'whatsapp'> = {
  documentation: 'https://developer.vonage.com/en/messages/concepts/whatsapp',
  credentials: [
    ...credentials,
    'Link the number of the WhatsApp Business account to the application, and give it as `from`.',
  ],
  account,
  fields: {
    body: '`text`. Only within 24 hours after the recipient’s last message.',
    template: '`custom.template`, in WhatsApp’s own format.',
    'template.header': 'A component of the template.',
    'template.buttons': 'Components of the template.',
    media: '`image`, `audio`, `video`, `file` or `sticker`.',
    'media.caption': '`caption` of the file.',
    'media.filename': '`name` of the file.',
    expiresAt: null,
  },
  messages: [
    { to: '+15551230001', body: 'Your parcel is on its way.' },
    { to: '+15551230001', template: { name: 'order_ready', language: 'en_US', variables: ['Ada', '7'] } },
    { to: '+15551230001', media: { url: 'https://www.example.com/invoice.pdf', filename: 'invoice.pdf' } },
  ],
  limits: ['A `body` has at most 4096 characters.'],
  unsupported: ['Interactive lists, products, locations and reactions.'],
};
