import { startPostmarkStandIn } from '../../services/providers/postmark/stand-in.ts';
import { MAIL } from './support/messages.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Postmark = {
  ServerClient: new (token: string) => { sendEmail(mail: object): Promise<{ readonly MessageID: string }> };
};
const { ServerClient } = await vendorPackage<Postmark>('postmark');

const serverToken = '00000000-1111-4222-8333-444455556666';
const { to, content } = MAIL;

twins([
  {
    name: 'a mail with everything',
    provider: 'postmark',
    account: { publicConfig: {}, secretConfig: { serverToken } },
    message: { ...ENVELOPE, ...MAIL },
    standIn: startPostmarkStandIn,
    headers: ['x-postmark-server-token'],
    async sendBySdk() {
      const { MessageID } = await new ServerClient(serverToken).sendEmail({
        From: '"Acme News" <news@acme.example>',
        To: to,
        ReplyTo: '"Acme Help" <help@acme.example>',
        Subject: content.subject,
        TextBody: content.text,
        HtmlBody: content.html,
        Headers: [{ Name: 'X-Campaign', Value: 'spring' }],
        Attachments: [{ Name: content.attachments[0].filename, Content: 'SGk=', ContentType: 'text/plain' }],
        Metadata: { despatch_message_id: REFERENCE },
        MessageStream: 'outbound',
      });
      return MessageID;
    },
    differences: [],
  },
]);
