import type { ProviderGuide } from '../guide.ts';

export const whatsappCloudGuide: ProviderGuide<'whatsapp'> = {
  documentation: 'https://developers.facebook.com/docs/whatsapp/cloud-api/messages',
  credentials: [
    'In the App Dashboard of Meta for Developers open WhatsApp > API Setup. It shows the Phone number ID (`phoneNumberId`) and the WhatsApp Business Account ID (`businessAccountId`).',
    'In the Business settings, under Users > System users, generate a token for the app with the permissions `whatsapp_business_messaging` and `whatsapp_business_management`. The second one only serves to read the number: without it, the credential check cannot tell whether the token works. The token that API Setup shows expires after a day.',
    'The app secret is under App settings > Basic. Take it from the app that the token was generated for: Meta refuses calls with the secret of another. An app with Require App Secret (App settings > Advanced) refuses calls without one.',
  ],
  account: {
    publicConfig: { phoneNumberId: '106540352242922', businessAccountId: '102290129340398' },
    secretConfig: { accessToken: 'your-access-token', appSecret: 'your-app-secret' },
  },
  fields: {
    body: '`text.body`, without link previews. Only within 24 hours after the recipient’s last message.',
    template: '`template`; variables are a list, or an object if the template names them.',
    'template.header': 'A component of the template.',
    'template.buttons': 'Components of the template.',
    media: '`image`, `video`, `audio`, `document` or `sticker`, which Meta fetches from its link.',
    'media.caption': '`caption`.',
    'media.filename': '`filename`.',
    expiresAt: null,
  },
  messages: [
    { to: '+15551230001', body: 'Your parcel is on its way.' },
    {
      to: '+15551230001',
      template: {
        name: 'order_ready',
        language: 'en_US',
        variables: ['Ada', '7'],
        buttons: [{ type: 'url', text: 'order-1042' }],
      },
    },
    {
      to: '+15551230001',
      media: { url: 'https://www.example.com/invoice.pdf', filename: 'invoice.pdf', caption: 'Your invoice' },
    },
  ],
  limits: [
    'A `body` has at most 4096 characters.',
    'Meta limits the messages of a number to one person, to about one in six seconds, and the new recipients per day; messages above these limits are retried. A marketing message that Meta withholds, because the person gets many of them, is not.',
  ],
  unsupported: ['Interactive lists, locations, contacts, reactions and uploaded media.'],
};
