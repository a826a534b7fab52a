import type { ProviderGuide } from '../guide.ts';

export const sinchGuide: ProviderGuide<'sms'> = {
  documentation: 'https://developers.sinch.com/docs/sms/api-reference/',
  credentials: [
    'Open the Sinch dashboard and its page SMS > APIs. The id of the service plan is `servicePlanId`, its API token `apiToken`.',
    '`region` is the region in which the service plan was created: the host of its base URL begins with it.',
    'Credentials of a project (key id and key secret) are for another host, which this provider does not call.',
  ],
  account: {
    publicConfig: { servicePlanId: 'your-service-plan-id', region: 'eu', from: '+15005550006' },
    secretConfig: { apiToken: 'your-api-token' },
  },
  fields: {
    body: '`body`. Text that looks like a parameter, such as `${name}`, arrives unchanged.',
    from: '`from`, instead of the account’s sender.',
    expiresAt: '`expire_at`, if less than three days are left.',
  },
  messages: [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
  limits: ['A `body` has at most 2000 characters.', 'Sinch tries for at most three days.'],
  unsupported: [
    'Batches with several recipients, groups, binary messages and scheduling at Sinch.',
    'Ids of the DLT register of India: the API accepts none.',
  ],
};
