import { generateKeyPairSync } from 'node:crypto';
import { startApnsStandIn } from '../../services/providers/apns/stand-in.ts';
import { ownTime } from './support/differences.ts';
import { ENVELOPE, NOW, REFERENCE, twins, type Difference } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Sent = { readonly sent: readonly { readonly device: string }[]; readonly failed: readonly unknown[] };
type Apn = {
  Provider: new (options: object) => {
    send(notification: object, device: string): Promise<Sent>;
    shutdown(done: () => void): Promise<void>;
  };
  Notification: new (fields: object) => object;
};
const { Provider, Notification } = await vendorPackage<Apn>('@parse/node-apn');

const { privateKey: key } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const device = '0123456789abcdef'.repeat(4);
const account = {
  publicConfig: {
    teamId: 'TEAM123456',
    keyId: 'KEY1234567',
    bundleId: 'com.acme.app',
    environment: 'sandbox',
  },
  secretConfig: { privateKey: key },
};
const headers = [
  'apns-id',
  'apns-topic',
  'apns-push-type',
  'apns-priority',
  'apns-expiration',
  'apns-collapse-id',
];

async function send(fields: object): Promise<string | undefined> {
  const provider = new Provider({
    token: { key, keyId: 'KEY1234567', teamId: 'TEAM123456' },
    production: false,
  });
  try {
    const { sent, failed } = await provider.send(new Notification(fields), device);
    if (failed.length > 0) throw new Error(JSON.stringify(failed));
    return sent[0]?.device;
  } finally {
    await new Promise<void>((resolve) => void provider.shutdown(resolve));
  }
}
const common = { provider: 'apns', account, standIn: startApnsStandIn, headers };
const rest = { id: REFERENCE, topic: 'com.acme.app', expiry: NOW / 1_000 + 3_600 };

const DIFFERENCES: readonly Difference[] = [
  ownTime('iat'),
  { at: 'header.authorization.head.typ', sdk: 'JWT', why: 'Apple asks for the algorithm and the key alone.' },
  {
    at: 'header.content-type',
    ours: 'application/json',
    why: 'Apple asks for none; ours says what the body is.',
  },
];

twins([
  {
    ...common,
    name: 'a notification',
    message: {
      ...ENVELOPE,
      channel: 'push',
      to: device,
      content: {
        title: 'Grüße',
        body: 'Hello',
        data: { order: '17' },
        badge: 3,
        sound: 'ping',
        collapseKey: 'news',
      },
    },
    sendBySdk: () =>
      send({
        ...rest,
        pushType: 'alert',
        priority: 10,
        collapseId: 'news',
        alert: { title: 'Grüße', body: 'Hello' },
        badge: 3,
        sound: 'ping',
        payload: { order: '17' },
      }),
    differences: DIFFERENCES,
  },
  {
    ...common,
    name: 'data for the app alone',
    message: { ...ENVELOPE, channel: 'push', to: device, content: { data: { order: '17' } } },
    sendBySdk: () =>
      send({ ...rest, pushType: 'background', priority: 5, contentAvailable: 1, payload: { order: '17' } }),
    differences: DIFFERENCES,
  },
]);
