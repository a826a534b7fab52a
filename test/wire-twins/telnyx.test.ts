import { generateKeyPairSync } from 'node:crypto';
import { startTelnyxStandIn } from '../../services/providers/telnyx/stand-in.ts';
import { signTelnyxCall } from '../../services/providers/telnyx/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { oracles } from './support/oracles.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Telnyx = {
  Telnyx: new (options: object) => {
    readonly messages: { send(message: object): Promise<{ readonly data: { readonly id: string } }> };
    readonly webhooks: { unwrap(body: string, options: object): Promise<unknown> };
  };
};
type Webhooks = {
  TelnyxWebhook: new (key: string) => {
    verify(body: string, headers: Readonly<Record<string, string>>): Promise<void>;
  };
};
const { Telnyx } = await vendorPackage<Telnyx>('telnyx');
const { TelnyxWebhook } = await vendorPackage<Webhooks>('telnyx/lib/webhooks');

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');
const profile = '3fa85f64-5717-4562-b3fc-2c963f66afa6';
const account = {
  publicConfig: { from: '+15005550006', messagingProfileId: profile, publicKey: key },
  secretConfig: { apiKey: 'KEY0123' },
};

twins([
  {
    name: 'a text',
    provider: 'telnyx',
    account,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Grüße & 你好' } },
    standIn: startTelnyxStandIn,
    async sendBySdk() {
      const client = new Telnyx({ apiKey: 'KEY0123' });
      const { data } = await client.messages.send({
        from: '+15005550006',
        messaging_profile_id: profile,
        to: '+15551230001',
        text: 'Grüße & 你好',
        type: 'SMS',
        webhook_url: `${RECEIPT_URL}?mid=${REFERENCE}`,
      });
      return data.id;
    },
    differences: [],
  },
]);

const report = {
  query: `?mid=${REFERENCE}`,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    data: {
      event_type: 'message.finalized',
      id: 'e1',
      payload: { id: '40385f64-5717-4562-b3fc-2c963f66afa6', to: [{ status: 'delivered' }], text: 'Grüße' },
    },
  }),
};
const common = {
  provider: 'telnyx',
  account,
  call: report,
  signedByUs: (call: Parameters<typeof signTelnyxCall>[0]) => signTelnyxCall(call, privateKey, Date.now()),
};

oracles([
  {
    ...common,
    name: 'a report, by TelnyxWebhook',
    takenByVendor: ({ headers, body }) =>
      new TelnyxWebhook(key).verify(Buffer.from(body).toString(), headers),
  },
  {
    ...common,
    name: 'a report, by the client',
    takenByVendor: ({ headers, body }) =>
      new Telnyx({ apiKey: 'KEY0123', publicKey: key }).webhooks.unwrap(Buffer.from(body).toString(), {
        headers,
      }),
  },
]);
