import type { Channel } from '#core/domain/message/channel.ts';
import type { MessageFields, ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

const URL_EXAMPLE = 'https://gateway.example.com/messages';
const EXPIRY = '`expiresAt`. Send nothing after it.';

function guideFor<C extends Channel>(
  fields: Readonly<Record<MessageFields[C], string>>,
  own: Readonly<Record<string, unknown>>,
  messages: ProviderGuide<C>['messages'],
): ProviderGuide<C> {
  return {
    documentation: 'https://www.standardwebhooks.com',
    credentials: [
      'There is no vendor: `url` is the address at which your own gateway accepts messages. The guide “Your own gateway” in the documentation describes the call.',
      'Generate 24 to 64 random bytes, write `whsec_` and the bytes in base64, and give the same `signingSecret` to the gateway and to this provider account.',
    ],
    account: {
      publicConfig: { url: URL_EXAMPLE, ...own },
      secretConfig: { signingSecret: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
    },
    fields,
    messages,
    limits: [
      'A call has the message’s id as `webhook-id`, the same on every attempt: if a message comes twice, send it once. After a call without an answer it comes again for at most seven days.',
      'The gateway must answer within the deadline of an attempt. The worker honours `Retry-After` of a 429 or 503.',
    ],
    unsupported: [
      'URLs without TLS and redirects. Private addresses and ports other than 443 need the permission of the platform’s operator.',
    ],
  };
}

export const smsGuide = guideFor<'sms'>(
  { body: '`content.body`.', from: '`from`, instead of the account’s sender.', expiresAt: EXPIRY },
  { from: 'Acme' },
  [{ to: '+15551230001', body: 'Your code is 1234', category: 'otp' }],
);

export const emailGuide = guideFor<'email'>(
  {
    from: '`content.from`.',
    subject: '`content.subject`.',
    bodyHtml: '`content.html`.',
    bodyText: '`content.text`.',
    replyTo: '`content.replyTo`.',
    headers: '`content.headers`.',
    attachments: '`content.attachments`.',
    expiresAt: EXPIRY,
  },
  { from: 'hello@example.com', fromName: 'Acme' },
  [MAIL_EXAMPLE],
);

export const pushGuide = guideFor<'push'>(
  {
    title: '`content.title`.',
    body: '`content.body`.',
    data: '`content.data`.',
    badge: '`content.badge`.',
    sound: '`content.sound`.',
    collapseKey: '`content.collapseKey`.',
    expiresAt: EXPIRY,
  },
  {},
  [{ to: 'your-device-token', title: 'Your order', body: 'It is on its way.' }],
);

export const whatsappGuide = guideFor<'whatsapp'>(
  {
    body: '`content.body`, with the kind `text`.',
    template: '`content.name`, `content.language` and `content.variables`, with the kind `template`.',
    'template.header': '`content.header`.',
    'template.buttons': '`content.buttons`.',
    media: '`content.url` and `content.type`, with the kind `media`.',
    'media.caption': '`content.caption`.',
    'media.filename': '`content.filename`.',
    expiresAt: EXPIRY,
  },
  { from: 'Acme' },
  [
    { to: '+15551230001', body: 'Your parcel is on its way.' },
    { to: '+15551230001', template: { name: 'order_ready', language: 'en_US', variables: ['Ada', '7'] } },
  ],
);
