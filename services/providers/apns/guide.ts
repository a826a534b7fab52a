import { PEM_EXAMPLE, type ProviderGuide } from '../guide.ts';

export const apnsGuide: ProviderGuide<'push'> = {
  documentation:
    'https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns',
  credentials: [
    'In the Apple Developer account open Membership details. The `Team ID` is `teamId`.',
    'Under Certificates, Identifiers & Profiles > Keys create a key with Apple Push Notifications service. If it is limited to an environment or to some apps, it must cover `environment` and `bundleId`. Its id is `keyId`; the file AuthKey_<id>.p8 can be downloaded once, and its content is `privateKey`.',
    '`bundleId` is the bundle id of the app under Identifiers. Apps that run from Xcode have sandbox tokens: store a second provider account with `environment` sandbox for them.',
  ],
  account: {
    publicConfig: { teamId: 'ABCDE12345', keyId: 'FGHIJ67890', bundleId: 'com.example.app' },
    secretConfig: { privateKey: PEM_EXAMPLE },
  },
  fields: {
    title: '`aps.alert.title`.',
    body: '`aps.alert.body`.',
    data: 'Keys beside `aps`: strings unchanged, other values as JSON text.',
    badge: '`aps.badge`.',
    sound: '`aps.sound`.',
    collapseKey:
      '`apns-collapse-id`; if the key is not printable ASCII of at most 64 characters, the SHA-256 hash of the key in base64url.',
    expiresAt: '`apns-expiration`.',
  },
  messages: [
    {
      to: '00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0',
      title: 'Your order',
      body: 'It is on its way.',
      badge: 1,
    },
  ],
  limits: [
    'A notification has at most 4096 bytes.',
    'A message with only `data` is a silent notification. Apple delivers those less often than visible ones.',
    'A message to a token that is no longer valid ends as `failed` with the class `invalid_recipient`, and the token is added to the suppression list.',
  ],
  unsupported: [
    'Receipts: `sent` is the last state of a message.',
    'Certificates instead of a key, VoIP, live activities, localised texts, categories and threads.',
  ],
};
