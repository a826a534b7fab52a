import { startPlivoStandIn } from '../../services/providers/plivo/stand-in.ts';
import { signPlivoAddress, signPlivoCall } from '../../services/providers/plivo/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { oracles } from './support/oracles.ts';
import { AXIOS_ACCEPT } from './support/differences.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
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
]);

const report = {
  query: `?mid=${REFERENCE}`,
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body: new URLSearchParams({
    From: '15005550006',
    To: '15551230001',
    MessageUUID: 'db3ce55a-7f1d-11e1-8ea7-1231380bc196',
    Status: 'delivered',
    ErrorCode: '000',
    Units: '1',
  }).toString(),
};

oracles([
  {
    name: 'a report, V3',
    provider: 'plivo',
    account,
    call: report,
    signedByUs: (call) => signPlivoCall(call, account),
    takenByVendor: ({ headers, url, body }) =>
      plivo.validateV3Signature(
        'POST',
        url,
        headers['x-plivo-signature-v3-nonce'] ?? '',
        authToken,
        headers['x-plivo-signature-v3'] ?? '',
        Object.fromEntries(new URLSearchParams(Buffer.from(body).toString())),
      ),
  },
  {
    name: 'a report, V2, which covers the address alone',
    provider: 'plivo',
    account,
    call: report,
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
