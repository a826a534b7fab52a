import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createHttpClient, type HttpClient } from '../../services/core/platform/http/http-client.ts';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startGatewayStandIn } from '../../services/providers/webhook/stand-in.ts';
import { signGatewayCall } from '../../services/providers/webhook/stand-in-signature.ts';
import { MAIL } from './support/messages.ts';
import { oracles } from './support/oracles.ts';
import { ENVELOPE, REFERENCE, sendByUs } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Webhook = {
  Webhook: new (secret: string) => {
    sign(id: string, at: Date, body: string): string;
    verify(body: string, headers: Readonly<Record<string, string>>): unknown;
  };
};
const libraries = {
  standardwebhooks: await vendorPackage<Webhook>('standardwebhooks'),
  svix: await vendorPackage<Webhook>('svix'),
};

const signingSecret = `whsec_${btoa('secret-of-32-bytes-in-all-length')}`;
const account = { publicConfig: { url: 'https://gateway.acme.example/' }, secretConfig: { signingSecret } };
const textOf = ({ body }: Pick<ReceiptCall, 'body'>) => Buffer.from(body).toString();

oracles(
  Object.entries(libraries).flatMap(([name, { Webhook }]) =>
    ['webhook-sms', 'webhook-email', 'webhook-push', 'webhook-whatsapp'].map((provider) => ({
      name: `a report, by ${name}`,
      provider,
      account,
      call: { body: JSON.stringify({ messageId: REFERENCE, status: 'delivered', note: 'Grüße ✓' }) },
      signedByVendor: (call: ReceiptCall) => ({
        ...call,
        headers: {
          'webhook-id': 'evt_1',
          'webhook-timestamp': String(Math.floor(call.receivedAt / 1_000)),
          'webhook-signature': new Webhook(signingSecret).sign(
            'evt_1',
            new Date(call.receivedAt),
            textOf(call),
          ),
        },
      }),
      signedByUs: (call: ReceiptCall) => signGatewayCall(call, account, call.receivedAt, 'evt_1'),
      takenByVendor: (call: ReceiptCall) =>
        void new Webhook(signingSecret).verify(textOf(call), call.headers),
    })),
  ),
);

describe('a message to a gateway', () => {
  let http: HttpClient;
  beforeAll(() => {
    http = createHttpClient();
  });
  afterAll(() => http[Symbol.asyncDispose]());

  test.each(Object.entries(libraries))('has a signature that %s accepts', async (_, { Webhook }) => {
    await using gateway = await startGatewayStandIn(signingSecret);
    const message = { ...ENVELOPE, ...MAIL };
    await sendByUs({ provider: 'webhook-email', account, message }, gateway, http, Date.now());
    const { headers, body } = gateway.received[0] ?? { headers: {}, body: '' };
    const webhook = new Webhook(signingSecret);
    expect(() => webhook.verify(body, headers)).not.toThrow();
    expect(() => webhook.verify(body.replace('Ada', 'Adb'), headers)).toThrow(/signature/);
  });
});
