import type { ProviderGuide } from './guide.ts';

/** A mail with a text and an HTML part, the usual case. */
export const MAIL_EXAMPLE: ProviderGuide<'email'>['messages'][number] = {
  to: 'ada@example.org',
  from: 'Acme <hello@example.com>',
  subject: 'Your order',
  bodyText: 'Your order is on its way.',
  bodyHtml: '<p>Your order is on its way.</p>',
};
