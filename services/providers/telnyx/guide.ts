import type { ProviderGuide } from '../guide.ts';

export const telnyxGuide: ProviderGuide<'sms'> = {
  documentation: 'https://developers.telnyx.com/docs/messaging/messages/send-message',
  credentials: [
    'Open the Telnyx portal and its page Account Settings > Keys & Credentials. An API key (it begins with `KEY`) is `apiKey`; the public key on the same page is `publicKey`.',
    'A sender is a number that is assigned to a messaging profile. The id of the profile is `messagingProfileId`; an alphanumeric sender id and a number pool need it.',
  ],
  account: {
    publicConfig: {
      from: '+15005550006',
      publicKey: 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=',
    },
    secretConfig: { apiKey: 'KEY0123456789' },
  },
  fields: {
    body: '`text`.',
    from: '`from`, instead of the account’s sender.',
    expiresAt: null,
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'The maximum length of a text depends on the recipient’s operator and on the profile.',
    'Telnyx keeps a message for at most four hours, even if it expires later.',
  ],
  unsupported: [
    'MMS, scheduling at Telnyx and failover URLs.',
    'Ids of the DLT register of India: the API accepts none.',
  ],
};
