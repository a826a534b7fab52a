import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startTwilioStandIn } from '../../services/providers/twilio/stand-in.ts';
import { signTwilioCall } from '../../services/providers/twilio/stand-in-signature.ts';
import { oracles } from './support/oracles.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { standInReports } from './support/stand-in-reports.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Form = Record<string, string | string[]>;
type Twilio = {
  (
    sid: string,
    token: string,
    options?: object,
  ): {
    readonly messages: { create(message: object): Promise<{ readonly sid: string }> };
  };
  validateRequest(token: string, signature: string, url: string, form: Form): boolean;
  getExpectedTwilioSignature(token: string, url: string, form: Form): string;
};
const twilio = await vendorPackage<Twilio>('twilio');

const accountSid = `AC${'0123456789abcdef'.repeat(2)}`;
const apiKeySid = `SK${'0123456789abcdef'.repeat(2)}`;
const authToken = 'auth-token-1';
const account = { publicConfig: { accountSid, from: '+15005550006' }, secretConfig: { authToken } };
const keyed = {
  publicConfig: { accountSid, from: '+15005550006', apiKeySid, region: 'ie1', edge: 'dublin' },
  secretConfig: { authToken, apiKeySecret: 'api-key-secret' },
};
const messagingServiceSid = `MG${'0123456789abcdef'.repeat(2)}`;
const contentSid = `HX${'0123456789abcdef'.repeat(2)}`;
const sid = `SM${'0123456789abcdef'.repeat(2)}`;
const common = {
  standIn: startTwilioStandIn,
  differences: [],
};
const callback = { statusCallback: `${RECEIPT_URL}?mid=${REFERENCE}`, validityPeriod: 3_600 };
const create = async (message: object) => (await twilio(accountSid, authToken).messages.create(message)).sid;

twins([
  {
    ...common,
    name: 'a text',
    provider: 'twilio',
    account,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Grüße & 50% + 你好' } },
    sendBySdk: () =>
      create({ to: '+15551230001', from: '+15005550006', body: 'Grüße & 50% + 你好', ...callback }),
  },
  {
    ...common,
    name: 'a text with an API key, in a region',
    provider: 'twilio',
    account: keyed,
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Hello' } },
    sendBySdk: async () => {
      const client = twilio(apiKeySid, 'api-key-secret', { accountSid, region: 'ie1', edge: 'dublin' });
      const message = { to: '+15551230001', from: '+15005550006', body: 'Hello', ...callback };
      return (await client.messages.create(message)).sid;
    },
  },
  {
    ...common,
    name: 'a text by a messaging service',
    provider: 'twilio',
    account: { publicConfig: { accountSid, messagingServiceSid }, secretConfig: { authToken } },
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: { body: 'Hello' } },
    sendBySdk: () => create({ to: '+15551230001', messagingServiceSid, body: 'Hello', ...callback }),
  },
  {
    ...common,
    name: 'a template',
    provider: 'twilio-whatsapp',
    account,
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: { kind: 'template', name: contentSid, language: 'en', variables: ['Ann', '12:00'] },
    },
    sendBySdk: () =>
      create({
        to: 'whatsapp:+15551230001',
        from: 'whatsapp:+15005550006',
        contentSid,
        contentVariables: '{"1":"Ann","2":"12:00"}',
        ...callback,
      }),
  },
  {
    ...common,
    name: 'an image',
    provider: 'twilio-whatsapp',
    account,
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: { kind: 'media', type: 'image', url: 'https://files.example/a.png', caption: 'Look' },
    },
    sendBySdk: () =>
      create({
        to: 'whatsapp:+15551230001',
        from: 'whatsapp:+15005550006',
        body: 'Look',
        mediaUrl: ['https://files.example/a.png'],
        ...callback,
      }),
  },
]);

/** Parses a form; a parameter that occurs several times becomes a list. */
function formOf(body: Uint8Array): Form {
  const form = new URLSearchParams(Buffer.from(body).toString());
  return Object.fromEntries(
    [...form].map(([name, value]) => [name, form.getAll(name).length === 1 ? value : form.getAll(name)]),
  );
}
const report = (query: string) => ({
  query,
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
  body:
    new URLSearchParams({
      AccountSid: accountSid,
      From: '+15005550006',
      MessageSid: sid,
      MessageStatus: 'delivered',
      To: '+15551230001',
      Body: 'a+b & c=ü',
    }).toString() + '&Media=1&Media=2',
});

// Versions of the SDK refused the second, https://github.com/twilio/twilio-node/issues/1183.
const SPELLINGS = [`?mid=${REFERENCE}&x=%7e~%20+a|b`, "?mid=o'neil"];

const takenByVendor = ({ headers, url, body }: ReceiptCall) =>
  twilio.validateRequest(authToken, headers['x-twilio-signature'] ?? '', url, formOf(body));

oracles(
  ['twilio', 'twilio-whatsapp'].flatMap((provider) =>
    [`?mid=${REFERENCE}`, ...SPELLINGS].map((query) => ({
      name: `a report to ${query}`,
      provider,
      account,
      call: report(query),
      signedByVendor: (call) => ({
        ...call,
        headers: {
          ...call.headers,
          'x-twilio-signature': twilio.getExpectedTwilioSignature(authToken, call.url, formOf(call.body)),
        },
      }),
      signedByUs: (call) => signTwilioCall(call, account),
      takenByVendor,
    })),
  ),
);

standInReports(
  [
    { provider: 'twilio', channel: 'sms', content: { body: 'Hello' } } as const,
    { provider: 'twilio-whatsapp', channel: 'whatsapp', content: { kind: 'text', body: 'Hello' } } as const,
  ].map(({ provider, ...content }) => ({
    name: 'a text',
    provider,
    account,
    message: { ...ENVELOPE, to: '+15551230001', expiresAt: Date.now() + 3_600_000, ...content },
    standIn: startTwilioStandIn,
    takenByVendor,
  })),
);
