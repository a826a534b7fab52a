import { PEM_EXAMPLE, type ProviderGuide } from '../guide.ts';

export const fcmGuide: ProviderGuide<'push'> = {
  documentation: 'https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages',
  credentials: [
    'In the Firebase console open Project settings. The tab General shows the project id, which is `projectId`.',
    'In the tab Service accounts generate a new private key. The content of the file is `serviceAccountJson`; or give its `client_email` as `clientEmail` and its `private_key` as `privateKey`.',
    'For devices of Apple upload their authentication key in the tab Cloud Messaging.',
  ],
  account: {
    publicConfig: {
      projectId: 'my-app-1a2b3',
      clientEmail: 'firebase-adminsdk@my-app-1a2b3.iam.gserviceaccount.com',
    },
    secretConfig: { privateKey: PEM_EXAMPLE },
  },
  fields: {
    title: '`notification.title`.',
    body: '`notification.body`.',
    data: '`data`: texts as they are, anything else as its JSON.',
    badge: '`aps.badge`; on Android `notification_count`, where there is a title or a body.',
    sound: '`aps.sound`; on Android `notification.sound`, where there is a title or a body.',
    collapseKey: '`collapse_key`; on devices of Apple `apns-collapse-id`.',
    expiresAt: 'How long the device may be out of reach: at most 28 days.',
  },
  messages: [
    {
      to: 'your-registration-token',
      title: 'Your order',
      body: 'It is on its way.',
      data: { orderId: 1042 },
    },
  ],
  limits: [
    'Names and values of `data` have at most 4096 bytes in all. Names that Firebase or Apple keep for themselves are refused.',
    'A token that is no longer registered ends the message as `invalid_recipient`. Take it off your list.',
  ],
  unsupported: [
    'Receipts: the last state of a message is `sent`.',
    'Topics, conditions, pictures, channels of Android and links of web push.',
  ],
};
