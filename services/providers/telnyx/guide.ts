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
    from: '`from`, in the place of the sender of the account.',
    expiresAt: null,
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'How long a text may be depends on the recipient’s operator and on the profile.',
    'Telnyx holds a message for at most four hours, whatever its expiry.',
  ],
  unsupported: [
    'MMS, scheduling at Telnyx and failover URLs.',
    'Ids of the DLT register of India: the API takes none with a message.',
  ],
};
