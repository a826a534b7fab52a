import type { ProviderGuide } from '../guide.ts';

const ACCOUNT_SID = 'AC00000000000000000000000000000001';

const credentials = [
  'Open the Twilio Console. Its start page shows `Account SID` and `Auth Token` under Account Info.',
  'To call with an API key instead of the auth token, create one under Account > API keys & tokens, and give its SID as `apiKeySid` and its secret as `apiKeySecret`. The auth token is still required: Twilio signs receipts with it. A restricted key needs the permissions to create and to read messages; without the second, the credential check cannot tell whether it works, and no message can be looked up.',
];
const common = {
  documentation: 'https://www.twilio.com/docs/messaging/api/message-resource',
  limits: [
    'A `body` has at most 1600 characters.',
    'Twilio keeps a message in its queue for at most 10 hours.',
    'Twilio has a queue for each sender. If it is full, Twilio refuses the message, and the worker retries.',
  ],
} as const;

export const smsGuide: ProviderGuide<'sms'> = {
  ...common,
  credentials: [
    ...credentials,
    'A sender is a number under Phone Numbers > Manage > Active numbers, an alphanumeric sender id where the country allows one, or a Messaging Service (Messaging > Services).',
  ],
  account: {
    publicConfig: { accountSid: ACCOUNT_SID, from: '+15005550006' },
    secretConfig: { authToken: 'your-auth-token' },
  },
  fields: {
    body: '`Body`.',
    from: '`From`, instead of the account’s sender.',
    expiresAt: '`ValidityPeriod`, if less than 10 hours are left.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  unsupported: [
    'Pictures (MMS), scheduling at Twilio, shortened links and smart encoding.',
    'Ids of the DLT register of India: Twilio accepts none.',
  ],
};

export const whatsappGuide: ProviderGuide<'whatsapp'> = {
  ...common,
  credentials: [
    ...credentials,
    'The sender is a number under Messaging > Senders > WhatsApp senders.',
    'Create templates in the Content Template Builder. The name of a template is its Content SID (`HX` and 32 hexadecimal digits).',
  ],
  account: {
    publicConfig: { accountSid: ACCOUNT_SID, from: '+15005550006' },
    secretConfig: { authToken: 'your-auth-token' },
  },
  fields: {
    body: '`Body`. Only within 24 hours after the recipient’s last message.',
    template:
      '`ContentSid` is the name, `ContentVariables` are the variables, including those of header and buttons; the template defines the language.',
    'template.header': null,
    'template.buttons': null,
    media: '`MediaUrl`. Files keep the name in their link.',
    'media.caption': '`Body`. Refused with a document, because Twilio would not show it.',
    'media.filename': null,
    expiresAt: '`ValidityPeriod`, if less than 10 hours are left.',
  },
  messages: [
    { to: '+15551230001', body: 'Your parcel is on its way.' },
    {
      to: '+15551230001',
      template: {
        name: 'HX00000000000000000000000000000001',
        language: 'en_US',
        variables: ['Ada', '7'],
      },
    },
    {
      to: '+15551230001',
      media: { url: 'https://www.example.com/map.png', type: 'image', caption: 'Where to find us' },
    },
  ],
  unsupported: ['Messages with a header or buttons apart from the variables are refused before any call.'],
};
