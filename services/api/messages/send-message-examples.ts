/** Requests that the OpenAPI document shows, by name. */
export const SEND_MESSAGE_EXAMPLES = {
  sms: { summary: 'sms', value: { channel: 'sms', to: '+15550000001', body: 'Your code is 1234' } },
  email: {
    summary: 'email',
    value: {
      channel: 'email',
      to: 'delivered@simulator.invalid',
      from: 'Acme <hello@example.com>',
      subject: 'Welcome',
      bodyHtml: '<p>Welcome!</p>',
      bodyText: 'Welcome!',
    },
  },
  scheduled: {
    summary: 'sms, later',
    value: {
      channel: 'sms',
      to: '+15550000001',
      body: 'Your appointment is today',
      sendAt: '2026-01-15T09:30:00.000Z',
    },
  },
  push: {
    summary: 'push',
    value: {
      channel: 'push',
      to: 'delivered',
      title: 'Hello',
      body: 'You have mail',
      data: { screen: 'inbox' },
    },
  },
  whatsapp: {
    summary: 'whatsapp',
    value: {
      channel: 'whatsapp',
      to: '+15550000001',
      template: { name: 'order_shipped', language: 'en_US', variables: ['1234'] },
    },
  },
};
