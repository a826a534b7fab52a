import { signMetaCall } from '../../services/providers/whatsapp-cloud/stand-in-signature.ts';
import { oracles } from './support/oracles.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Octokit = {
  sign(secret: string, body: string): Promise<string>;
  verify(secret: string, body: string, signature: string): Promise<boolean>;
};
// GitHub signs as Meta does, with the same form of the header, the same key and the same bytes.
const octokit = await vendorPackage<Octokit>('./node_modules/@octokit/webhooks-methods/dist-node/index.js');

const appSecret = 'app-secret-1';
const account = {
  publicConfig: { phoneNumberId: '106540352242922' },
  secretConfig: { accessToken: 'EAAtoken', appSecret },
};
const body =
  '{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[],"note":"Gr\\u00fc\\u00dfe \\/"}]}';

oracles([
  {
    name: 'a report',
    provider: 'whatsapp-cloud',
    account,
    call: { headers: { 'content-type': 'application/json' }, body },
    signedByVendor: async (call) => ({
      ...call,
      headers: { 'x-hub-signature-256': await octokit.sign(appSecret, Buffer.from(call.body).toString()) },
    }),
    signedByUs: (call) => signMetaCall(call, account),
    takenByVendor: ({ headers, body }) =>
      octokit.verify(appSecret, Buffer.from(body).toString(), headers['x-hub-signature-256'] ?? ''),
  },
]);
