import { startInfobipStandIn } from '../../services/providers/infobip/stand-in.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { AXIOS_ACCEPT } from './support/differences.ts';
import { ENVELOPE, REFERENCE, twins, type Difference } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Answer = {
  readonly data: {
    readonly messageId?: string;
    readonly messages?: readonly { readonly messageId: string }[];
  };
};
type Infobip = {
  Infobip: new (options: object) => {
    readonly channels: { readonly whatsapp: { send(message: object): Promise<Answer> } };
  };
};
const { Infobip } = await vendorPackage<Infobip>('@infobip-api/sdk');

const account = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: '+15005550006' },
  secretConfig: { apiKey: 'key-1' },
};
const common = { provider: 'infobip-whatsapp', account, standIn: startInfobipStandIn };
const typed = (type: string): readonly Difference[] => [
  AXIOS_ACCEPT,
  {
    at: 'body.type',
    sdk: type,
    why: 'The SDK posts its own argument, which names the resource, along with the message.',
  },
];
const ends = {
  from: '15005550006',
  to: '15551230001',
  messageId: REFERENCE,
  callbackData: REFERENCE,
  notifyUrl: RECEIPT_URL,
};
async function send(message: object): Promise<string | undefined> {
  const options = { baseUrl: 'https://xyz123.api.infobip.com', apiKey: 'key-1', authType: 'App' };
  const { data } = await new Infobip(options).channels.whatsapp.send(message);
  return data.messageId ?? data.messages?.[0]?.messageId;
}

// The SDK supports the second version of the SMS API and the adapter uses the third, so they cannot be compared.
twins([
  {
    ...common,
    name: 'a text',
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: { kind: 'text', body: 'Grüße' },
    },
    differences: typed('text'),
    sendBySdk: () => send({ type: 'text', ...ends, content: { text: 'Grüße', previewUrl: false } }),
  },
  {
    ...common,
    name: 'a document',
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: {
        kind: 'media',
        type: 'document',
        url: 'https://files.example/a.pdf',
        caption: 'Look',
        filename: 'a.pdf',
      },
    },
    differences: typed('document'),
    sendBySdk: () =>
      send({
        type: 'document',
        ...ends,
        content: { mediaUrl: 'https://files.example/a.pdf', caption: 'Look', filename: 'a.pdf' },
      }),
  },
  {
    ...common,
    name: 'a template',
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: {
        kind: 'template',
        name: 'welcome',
        language: 'en',
        variables: ['Ann'],
        header: { type: 'image', url: 'https://files.example/a.png' },
        buttons: [{ type: 'quick_reply', payload: 'yes' }],
      },
    },
    differences: typed('template'),
    sendBySdk: () =>
      send({
        type: 'template',
        messages: [
          {
            ...ends,
            content: {
              templateName: 'welcome',
              language: 'en',
              templateData: {
                body: { placeholders: ['Ann'] },
                header: { type: 'IMAGE', mediaUrl: 'https://files.example/a.png' },
                buttons: [{ type: 'QUICK_REPLY', parameter: 'yes' }],
              },
            },
          },
        ],
      }),
  },
]);
