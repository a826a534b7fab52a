import type { ProviderGuide } from '../guide.ts';

export const messagebirdGuide: ProviderGuide<'sms'> = {
  documentation: 'https://developers.messagebird.com/api/sms-messaging/',
  credentials: [
    'Open the MessageBird dashboard and its page Developers > API access. A live access key is `accessKey`.',
    'The signing key under Developers > API settings is `signingKey`.',
    'Accounts of the new platform at `api.bird.com` have another API, which this provider does not use.',
  ],
  account: {
    publicConfig: { originator: '+15005550006' },
    secretConfig: { accessKey: 'your-access-key', signingKey: 'your-signing-key' },
  },
  fields: {
    body: '`body`, with the encoding chosen by MessageBird.',
    from: '`originator`, instead of the account’s.',
    expiresAt: '`validity`, if less than two days are left.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: ['MessageBird tries for at most two days.'],
  unsupported: [
    'Flash and binary messages, scheduling at MessageBird and several recipients of one message.',
    'Ids of the DLT register of India: the API accepts none.',
  ],
};
