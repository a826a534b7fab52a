import { startResendStandIn } from '../../services/providers/resend/stand-in.ts';
import { signResendCall } from '../../services/providers/resend/stand-in-signature.ts';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { FETCH_ACCEPT } from './support/differences.ts';
import { MAIL } from './support/messages.ts';
import { oracles, type Oracle } from './support/oracles.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Resend = {
  Resend: new (key: string) => {
    readonly emails: {
      send(mail: object, options: object): Promise<{ readonly data: { readonly id: string } | null }>;
    };
    readonly webhooks: { verify(call: object): unknown };
  };
};
type Webhook = {
  Webhook: new (secret: string) => {
    sign(id: string, at: Date, body: string): string;
    verify(body: string, headers: Readonly<Record<string, string>>): unknown;
  };
};
const { Resend } = await vendorPackage<Resend>('resend');
const svix = await vendorPackage<Webhook>('svix');
const standard = await vendorPackage<Webhook>('standardwebhooks');

const webhookSecret = `whsec_${btoa('secret of 24 bytes or so')}`;
const account = { publicConfig: {}, secretConfig: { apiKey: 're_key1', webhookSecret } };
const { to, content } = MAIL;

twins([
  {
    name: 'a mail with everything',
    provider: 'resend',
    account,
    message: { ...ENVELOPE, ...MAIL },
    standIn: startResendStandIn,
    headers: ['idempotency-key'],
    async sendBySdk() {
      const { data } = await new Resend('re_key1').emails.send(
        {
          from: '"Acme News" <news@acme.example>',
          to: [to],
          replyTo: '"Acme Help" <help@acme.example>',
          subject: content.subject,
          text: content.text,
          html: content.html,
          headers: content.headers,
          attachments: [
            { filename: content.attachments[0].filename, content: 'SGk=', contentType: 'text/plain' },
          ],
          tags: [{ name: 'despatch_message_id', value: REFERENCE }],
        },
        { idempotencyKey: REFERENCE },
      );
      return data?.id;
    },
    differences: [FETCH_ACCEPT],
  },
]);

const ID = 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W';
const event = {
  type: 'email.delivered',
  created_at: '2026-11-22T12:00:00.126Z',
  data: { email_id: '56761188-7520-42d8-8898-ff6fc54ce618', to: [to], subject: 'Grüße ✓' },
};
function by(name: string, { Webhook }: Webhook, prefix: 'svix' | 'webhook'): Oracle {
  const webhook = new Webhook(webhookSecret);
  return {
    name: `an event, by ${name}`,
    provider: 'resend',
    account,
    call: { headers: { 'content-type': 'application/json' }, body: JSON.stringify(event) },
    signedByVendor: (call) => ({
      ...call,
      headers: {
        ...call.headers,
        [`${prefix}-id`]: ID,
        [`${prefix}-timestamp`]: String(Math.floor(call.receivedAt / 1_000)),
        [`${prefix}-signature`]: webhook.sign(ID, new Date(call.receivedAt), textOf(call)),
      },
    }),
    signedByUs: (call) => signResendCall(prefix, call, account, call.receivedAt),
    takenByVendor: (call) => void webhook.verify(textOf(call), call.headers),
  };
}
const textOf = ({ body }: ReceiptCall) => Buffer.from(body).toString();

oracles([
  by('svix', svix, 'svix'),
  by('standardwebhooks', standard, 'webhook'),
  {
    ...by('its own SDK', svix, 'svix'),
    takenByVendor: (call) =>
      void new Resend('re_key1').webhooks.verify({
        payload: textOf(call),
        headers: {
          id: call.headers['svix-id'],
          timestamp: call.headers['svix-timestamp'],
          signature: call.headers['svix-signature'],
        },
        webhookSecret,
      }),
  },
]);
