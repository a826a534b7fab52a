import { createHash } from 'node:crypto';
import type { OutboundFor, PushContent } from '#core/domain/content.ts';
import { pushDataTexts } from '#core/domain/push-data.ts';

/** What Apple takes as a collapse id: at most 64 bytes. A space at either end of a header's value would be lost. */
const COLLAPSE_ID = /^[\x21-\x7e](?:[\x20-\x7e]{0,62}[\x21-\x7e])?$/;

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

/** Returns the key, or its hash if the key cannot stand in a header: equal keys have equal hashes. */
function collapseId(key: string): string {
  return COLLAPSE_ID.test(key) ? key : createHash('sha256').update(key).digest('base64url');
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
