import type { OutboundFor, PushContent } from '#core/domain/message/content.ts';
import { pushDataTexts } from '#core/domain/message/push-data.ts';
import { collapseId } from '../collapse-id.ts';

/** https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
export function apnsHeaders(
  { id, content, expiresAt }: OutboundFor<'push'>,
  bundleId: string,
): Record<string, string> {
  const isSilent = isForAppAlone(content);
  return {
    'apns-id': id,
    'apns-topic': bundleId,
    'apns-push-type': isSilent ? 'background' : 'alert',
    // Apple rejects a silent notification with any other priority.
    'apns-priority': isSilent ? '5' : '10',
    'apns-expiration': String(Math.floor(expiresAt / 1_000)),
    ...(content.collapseKey === undefined ? {} : { 'apns-collapse-id': collapseId(content.collapseKey) }),
  };
}

/** The app's own data sits next to the `aps` key, so none of its keys may be named `aps`. */
export function apnsPayload(content: PushContent) {
  const { title, body, data = {}, badge, sound } = content;
  const alert = { ...(title === undefined ? {} : { title }), ...(body === undefined ? {} : { body }) };
  return {
    ...pushDataTexts(data),
    aps: {
      ...(Object.keys(alert).length === 0 ? {} : { alert }),
      ...(badge === undefined ? {} : { badge }),
      ...(sound === undefined ? {} : { sound }),
      ...(isForAppAlone(content) ? { 'content-available': 1 } : {}),
    },
  };
}

function isForAppAlone({ title, body, badge, sound }: PushContent): boolean {
  return [title, body, badge, sound].every((shown) => shown === undefined);
}
