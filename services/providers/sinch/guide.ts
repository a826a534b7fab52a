import type { ProviderGuide } from '../guide.ts';

export const sinchGuide: ProviderGuide<'sms'> = {
  documentation: 'https://developers.sinch.com/docs/sms/api-reference/',
  credentials: [
    'Open the Sinch dashboard and its page SMS > APIs. The id of the service plan is `servicePlanId`, its API token `apiToken`.',
    '`region` is where the service plan was made: the host of its base URL begins with it.',
    'Credentials of a project (key id and key secret) are for another host, which this provider does not call.',
  ],
  account: {
    publicConfig: { servicePlanId: 'your-service-plan-id', region: 'eu', from: '+15005550006' },
    secretConfig: { apiToken: 'your-api-token' },
  },
  fields: {
    body: '`body`. What looks like a parameter, such as `${name}`, arrives as it was written.',
    from: '`from`, in the place of the sender of the account.',
    expiresAt: '`expire_at`, where less than three days are left.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: ['A `body` has at most 2000 characters.', 'Sinch tries for at most three days.'],
  unsupported: [
    'Batches with several recipients, groups, binary messages and scheduling at Sinch.',
    'Ids of the DLT register of India: the API takes none with a message.',
  ],
};
