import { PEM_EXAMPLE, type ProviderGuide } from '../guide.ts';

export const fcmGuide: ProviderGuide<'push'> = {
  documentation: 'https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages',
  credentials: [
    'In the Firebase console open Project settings. The tab General shows the project id, which is `projectId`.',
    'In the tab Service accounts generate a new private key. The content of the file is `serviceAccountJson`; or give its `client_email` as `clientEmail` and its `private_key` as `privateKey`.',
    'For Apple devices upload their authentication key in the tab Cloud Messaging.',
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
    data: '`data`: strings unchanged, other values as JSON text.',
    badge: '`aps.badge`; on Android `notification_count`, if there is a title or a body.',
    sound: '`aps.sound`; on Android `notification.sound`, if there is a title or a body.',
    collapseKey:
      '`collapse_key`; on Apple devices `apns-collapse-id`, which is the SHA-256 hash of the key in base64url if the key is not printable ASCII of at most 64 characters.',
    expiresAt: 'How long FCM waits for an offline device: at most 28 days.',
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
    'Names and values of `data` have at most 4096 bytes in total. Names that Firebase or Apple reserve are refused.',
    'A message to a token that is no longer registered ends as `failed` with the class `invalid_recipient`, and the token is added to the suppression list.',
  ],
  unsupported: [
    'Receipts: `sent` is the last state of a message.',
    'Topics, conditions, pictures, Android channels and web push links.',
  ],
};
