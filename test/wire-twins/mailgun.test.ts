import { startMailgunStandIn } from '../../services/providers/mailgun/stand-in.ts';
import { AXIOS_ACCEPT } from './support/differences.ts';
import { MAIL } from './support/messages.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Mailgun = {
  new (form: unknown): {
    client(options: object): {
      readonly messages: { create(domain: string, mail: object): Promise<{ readonly id: string }> };
    };
  };
};
const Mailgun = await vendorPackage<Mailgun>('mailgun.js');
const FormData = await vendorPackage<unknown>('form-data');

const { to, content } = MAIL;
const { attachments, ...rest } = content;
const texts = {
  from: '"Acme News" <news@acme.example>',
  to: [to],
  subject: content.subject,
  text: content.text,
  html: content.html,
  'h:Reply-To': '"Acme Help" <help@acme.example>',
  'h:X-Campaign': 'spring',
  'o:deliver-within': '1h',
  'v:despatch_message_id': REFERENCE,
};
const account = { publicConfig: { domain: 'mg.acme.example' }, secretConfig: { apiKey: 'key-1' } };
const send = async (mail: object, options: object = {}) => {
  const client = new Mailgun(FormData).client({ username: 'api', key: 'key-1', ...options });
  return (await client.messages.create('mg.acme.example', mail)).id;
};
const [file] = attachments;
const attachment = {
  filename: file.filename,
  data: Buffer.from(file.content, 'base64'),
  contentType: file.contentType,
};

twins([
  {
    name: 'a mail with everything',
    provider: 'mailgun',
    account,
    message: { ...ENVELOPE, ...MAIL },
    standIn: startMailgunStandIn,
    sendBySdk: () => send({ ...texts, attachment }),
    differences: [AXIOS_ACCEPT],
  },
  {
    name: 'a mail without files in the European Union',
    provider: 'mailgun',
    account: { ...account, publicConfig: { ...account.publicConfig, region: 'eu' } },
    message: { ...ENVELOPE, ...MAIL, content: rest },
    standIn: startMailgunStandIn,
    sendBySdk: () => send(texts, { url: 'https://api.eu.mailgun.net' }),
    differences: [
      AXIOS_ACCEPT,
      {
        at: 'header.content-type',
        sdk: 'multipart/form-data;boundary',
        ours: 'application/x-www-form-urlencoded',
        why: 'Only files ask for parts; Mailgun takes the shorter form too.',
      },
    ],
  },
]);
