import type { ProviderGuide } from '../guide.ts';

export const plivoGuide: ProviderGuide<'sms'> = {
  documentation: 'https://www.plivo.com/docs/messaging/api/message/send-a-message',
  credentials: [
    'Open the Plivo console. Its overview shows `Auth ID` and `Auth Token`; a subaccount has its own.',
    'A sender is a number under Phone Numbers, or a Powerpack (Messaging > Powerpacks), whose UUID is `powerpackUuid`.',
  ],
  account: {
    publicConfig: { authId: 'MAXXXXXXXXXXXXXXXXXX', from: '+15005550006' },
    secretConfig: { authToken: 'your-auth-token' },
  },
  fields: {
    body: '`text`.',
    from: '`src`, instead of the account’s sender and its Powerpack.',
    expiresAt: '`message_expiry`, if less than three hours are left; at least 5 seconds.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'A `body` has at most 1600 characters, and at most 737 if one of them is outside the GSM alphabet.',
    'Plivo holds a message for at most three hours.',
  ],
  unsupported: [
    'MMS and WhatsApp through Plivo, and several recipients of one message.',
    'The signature of a receipt covers its URL, not its content. The secret in the receipt URL authenticates the content.',
  ],
};
