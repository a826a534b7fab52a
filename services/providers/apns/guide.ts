import { PEM_EXAMPLE, type ProviderGuide } from '../guide.ts';

export const apnsGuide: ProviderGuide<'push'> = {
  documentation:
    'https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns',
  credentials: [
    'In the Apple Developer account open Membership details. `Team ID` is `teamId`.',
    'Under Certificates, Identifiers & Profiles > Keys create a key with Apple Push Notifications service. Its id is `keyId`; the file AuthKey_<id>.p8 can be downloaded once, and its content is `privateKey`.',
    '`bundleId` is that of the app under Identifiers. Apps run from Xcode have tokens of the sandbox: store a second provider with `environment` sandbox for them.',
  ],
  account: {
    publicConfig: { teamId: 'ABCDE12345', keyId: 'FGHIJ67890', bundleId: 'com.example.app' },
    secretConfig: { privateKey: PEM_EXAMPLE },
  },
  fields: {
    title: '`aps.alert.title`.',
    body: '`aps.alert.body`.',
    data: 'Names beside `aps`: texts as they are, anything else as its JSON.',
    badge: '`aps.badge`.',
    sound: '`aps.sound`.',
    collapseKey: '`apns-collapse-id`.',
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
    'A message with `data` alone goes to the app silently, which Apple does less often than showing one.',
    'A token that is no longer one ends the message as `invalid_recipient`. Take it off your list.',
  ],
  unsupported: [
    'Receipts: the last state of a message is `sent`.',
    'Certificates in the place of a key, VoIP, live activities, localised texts, categories and threads.',
  ],
};
