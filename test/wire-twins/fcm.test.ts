import { generateKeyPairSync } from 'node:crypto';
import { expect } from 'vitest';
import { startFcmStandIn } from '../../services/providers/fcm/stand-in.ts';
import { NO_ACCEPT, ownTime } from './support/differences.ts';
import { ENVELOPE, NOW, twins, type Difference } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type App = {
  initializeApp(options: object, name: string): object;
  cert(account: object): object;
  deleteApp(app: object): Promise<void>;
};
type Messaging = { getMessaging(app: object): { send(message: object): Promise<string> } };
const { initializeApp, cert, deleteApp } = await vendorPackage<App>('firebase-admin/app');
const { getMessaging } = await vendorPackage<Messaging>('firebase-admin/messaging');

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2_048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const clientEmail = 'sender@my-app.iam.gserviceaccount.com';
const account = { publicConfig: { projectId: 'my-app', clientEmail }, secretConfig: { privateKey } };
const expiration = String(NOW / 1_000 + 3_600);

let count = 0;
async function send(message: object): Promise<string> {
  const credential = cert({ projectId: 'my-app', clientEmail, privateKey });
  const app = initializeApp({ credential, projectId: 'my-app' }, `app-${(count += 1)}`);
  try {
    return await getMessaging(app).send(message);
  } finally {
    await deleteApp(app);
  }
}
const alert = {
  name: 'a notification',
  provider: 'fcm',
  account,
  message: {
    ...ENVELOPE,
    channel: 'push',
    to: 'device-token-1',
    content: {
      title: 'Grüße',
      body: 'Hello',
      data: { order: '17' },
      badge: 3,
      sound: 'ping',
      collapseKey: 'news',
    },
  },
  standIn: startFcmStandIn,
  sendBySdk: () =>
    send({
      token: 'device-token-1',
      notification: { title: 'Grüße', body: 'Hello' },
      data: { order: '17' },
      android: {
        priority: 'high',
        ttl: 3_600_000,
        collapseKey: 'news',
        notification: { sound: 'ping', notificationCount: 3 },
      },
      apns: {
        headers: {
          'apns-push-type': 'alert',
          'apns-priority': '10',
          'apns-expiration': expiration,
          'apns-collapse-id': 'news',
        },
        payload: { aps: { badge: 3, sound: 'ping' } },
      },
      webpush: { headers: { TTL: '3600' } },
    }),
} as const;

const any = expect.any(String) as unknown;
const SEND: readonly Difference[] = [
  NO_ACCEPT,
  {
    at: 'body.message.android.priority',
    sdk: 'high',
    ours: 'HIGH',
    why: 'The SDK passes on its own spelling; the API names the value HIGH.',
  },
  { at: 'header.authorization', sdk: any, ours: any, why: 'Each has got a token of its own.' },
  {
    at: 'header.content-type',
    sdk: 'application/json;charset=utf-8',
    ours: 'application/json',
    why: 'JSON is UTF-8 anyway.',
  },
];

const TOKEN: readonly Difference[] = [
  ownTime('exp', 'body.assertion'),
  ownTime('iat', 'body.assertion'),
  {
    at: 'body.assertion.claims.scope',
    sdk: expect.stringContaining(' https://www.googleapis.com/auth/firebase.messaging ') as unknown,
    ours: 'https://www.googleapis.com/auth/firebase.messaging',
    why: 'The SDK asks for all of Firebase at once.',
  },
  { at: 'body.assertion.head.typ', ours: 'JWT', why: "As Google's description has it." },
  {
    at: 'header.content-type',
    sdk: 'application/x-www-form-urlencoded;charset=utf-8',
    ours: 'application/x-www-form-urlencoded',
    why: 'A form is UTF-8 anyway.',
  },
];

twins([
  // Runs first, because the SDK caches its token.
  { ...alert, name: 'a notification, its access token', path: /token$/, differences: TOKEN },
  { ...alert, path: /messages:send$/, differences: SEND },
  {
    ...alert,
    name: 'data for the app alone',
    message: {
      ...ENVELOPE,
      channel: 'push',
      to: 'device-token-1',
      content: { data: { order: '17' } },
    },
    sendBySdk: () =>
      send({
        token: 'device-token-1',
        data: { order: '17' },
        android: { priority: 'high', ttl: 3_600_000 },
        apns: {
          headers: { 'apns-push-type': 'background', 'apns-priority': '5', 'apns-expiration': expiration },
          payload: { aps: { contentAvailable: true } },
        },
        webpush: { headers: { TTL: '3600' } },
      }),
    path: /messages:send$/,
    differences: SEND,
  },
]);
