import type { Channel } from '#core/domain/message/channel.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';
import type { MessageFields, ProviderGuide } from '../guide.ts';

type Guides = { readonly [C in Channel]: ProviderGuide<C> };

const KEPT = 'Checked and counted as for any provider.';

function guideFor<C extends Channel>(
  fields: readonly MessageFields[C][],
  choice: string,
  messages: ProviderGuide<C>['messages'],
): ProviderGuide<C> {
  return {
    documentation: null,
    credentials: ['None: a simulator has neither settings nor a secret, and makes no calls.'],
    account: { publicConfig: {}, secretConfig: {} },
    fields: Object.fromEntries(fields.map((field) => [field, KEPT])) as Record<MessageFields[C], string>,
    messages,
    limits: [choice],
    unsupported: ['Delivery: no message leaves Despatch.'],
  };
}

const number =
  'The recipient determines the outcome: `+15550000001` is delivered, 02 refused, 03 refused temporarily, 04 without an answer, 05 reported twice, 06 reported out of order, 07 never reported; messages to any other number are delivered.';
const word = (of: string) =>
  `The recipient determines the outcome: ${of} delivered, invalid, transient, ambiguous, repeated, reordered or silent; messages to any other recipient are delivered.`;

export const simulatorGuides: Guides = {
  sms: guideFor<'sms'>(['body', 'from', 'expiresAt'], number, [
    { to: '+15550000001', body: 'Your code is 1234' },
  ]),
  email: guideFor<'email'>(
    ['from', 'subject', 'bodyHtml', 'bodyText', 'replyTo', 'headers', 'attachments', 'expiresAt'],
    word('before `@simulator.invalid`, one of'),
    [{ ...MAIL_EXAMPLE, to: 'delivered@simulator.invalid' }],
  ),
  push: guideFor<'push'>(
    ['title', 'body', 'data', 'badge', 'sound', 'collapseKey', 'expiresAt'],
    word('a token that is one of'),
    [{ to: 'delivered', title: 'Your order', body: 'It is on its way.' }],
  ),
  whatsapp: guideFor<'whatsapp'>(
    [
      'body',
      'template',
      'template.header',
      'template.buttons',
      'media',
      'media.caption',
      'media.filename',
      'expiresAt',
    ],
    number,
    [{ to: '+15550000001', body: 'Your parcel is on its way.' }],
  ),
};
