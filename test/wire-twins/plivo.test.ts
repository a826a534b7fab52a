import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startPlivoStandIn } from '../../services/providers/plivo/stand-in.ts';
import { signPlivoAddress, signPlivoCall } from '../../services/providers/plivo/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { oracles, type Oracle } from './support/oracles.ts';
import { AXIOS_ACCEPT } from './support/differences.ts';
import { ENVELOPE, INDIA, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Form = Record<string, string>;
type Plivo = {
  Client: new (
    authId: string,
    authToken: string,
  ) => {
    readonly messages: {
      create(src: string, dst: string, text: string, options: object): Promise<{ messageUuid: string[] }>;
    };
  };
  validateV3Signature(
    method: string,
    url: string,
    nonce: string,
    token: string,
    signature: string,
    form: Form,
  ): boolean;
  validateSignature(url: string, nonce: string, signature: string, token: string): boolean;
};
const plivo = await vendorPackage<Plivo>('plivo');

const authToken = 'auth-token-1';
const account = {
  publicConfig: { authId: 'MAXXXXXXXXXXXXXXXXXX', from: '+15005550006' },
  secretConfig: { authToken },
};

twins([
  {
    name: 'a text',
    provider: 'plivo',
    account,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Grüße & 50% + 你好' } },
    standIn: startPlivoStandIn,
    async sendBySdk() {
      const client = new plivo.Client('MAXXXXXXXXXXXXXXXXXX', authToken);
      const options = {
        type: 'sms',
        url: `${RECEIPT_URL}?mid=${REFERENCE}`,
        method: 'POST',
        messageExpiry: 3_600,
      };
      const { messageUuid } = await client.messages.create(
        '+15005550006',
        '15551230001',
        'Grüße & 50% + 你好',
        options,
      );
      return messageUuid[0];
    },
    differences: [AXIOS_ACCEPT],
  },
  {
    name: 'a text to India',
    provider: 'plivo',
    account: { ...account, publicConfig: { ...account.publicConfig, ...INDIA.settings } },
    message: { ...ENVELOPE, channel: 'sms', to: INDIA.to, content: { body: 'Hello' } },
    standIn: startPlivoStandIn,
    async sendBySdk() {
      const client = new plivo.Client('MAXXXXXXXXXXXXXXXXXX', authToken);
      const { messageUuid } = await client.messages.create('+15005550006', INDIA.digits, 'Hello', {
        type: 'sms',
        url: `${RECEIPT_URL}?mid=${REFERENCE}`,
        method: 'POST',
        messageExpiry: 3_600,
        dltEntityId: INDIA.settings.dltEntityId,
        dltTemplateId: INDIA.settings.dltTemplateId,
      });
      return messageUuid[0];
    },
    differences: [AXIOS_ACCEPT],
  },
]);

const form = new URLSearchParams({
  From: '15005550006',
  To: '15551230001',
  MessageUUID: 'db3ce55a-7f1d-11e1-8ea7-1231380bc196',
  Status: 'delivered',
  ErrorCode: '000',
  Note: 'a+b & c=ü',
});
const posted = {
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: form.toString(),
};
const common = { provider: 'plivo', account };
const isTaken = ({ method, headers, url, body }: ReceiptCall) =>
  plivo.validateV3Signature(
    method,
    url,
    headers['x-plivo-signature-v3-nonce'] ?? '',
    authToken,
    headers['x-plivo-signature-v3'] ?? '',
    Object.fromEntries(new URLSearchParams(Buffer.from(body).toString())),
  );

oracles([
  ...[`?mid=${REFERENCE}`, `?mid=${REFERENCE}&b=2&a=1`, '?note=%C3%BC+x%20y'].map((query): Oracle => ({
    ...common,
    name: `a report to ${query}, V3`,
    call: { ...posted, query },
    signedByUs: (call) => signPlivoCall(call, account),
    takenByVendor: isTaken,
  })),
  {
    ...common,
    name: 'a report, V2, which covers the address alone',
    call: { ...posted, query: `?mid=${REFERENCE}` },
    signedByUs: (call) => signPlivoAddress(call, account),
    takenByVendor: ({ headers, url }) =>
      plivo.validateSignature(
        url,
        headers['x-plivo-signature-v2-nonce'] ?? '',
        headers['x-plivo-signature-v2'] ?? '',
        authToken,
      ),
    changed: (call) => ({ ...call, url: call.url.replace('1111', '1112') }),
  },
]);
