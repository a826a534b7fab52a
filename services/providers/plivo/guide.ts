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
    from: '`src`, in the place of the sender of the account and of its Powerpack.',
    expiresAt: '`message_expiry`, where less than three hours are left; at least 5 seconds.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: [
    'A `body` has at most 1600 characters, and at most 737 where one of them is outside of the GSM alphabet.',
    'Plivo holds a message for at most three hours.',
  ],
  unsupported: [
    'MMS and WhatsApp of Plivo, and several recipients of one message.',
    'The signature of a receipt covers its address and not what it says. The secret in the receipt URL stands for that.',
  ],
};
