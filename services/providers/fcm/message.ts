import type { OutboundFor, PushContent } from '#core/domain/message/content.ts';
import { pushDataTexts } from '#core/domain/message/push-data.ts';
import { collapseId } from '../collapse-id.ts';

const TTL_S_MAX = 4 * 7 * 86_400;

/** Builds the `message` of the HTTP v1 API: the visible notification, its data, and how long each platform may hold it. */
export function fcmMessage({ to, content, expiresAt }: OutboundFor<'push'>, now: number) {
  const ttl = Math.min(Math.max(0, Math.floor((expiresAt - now) / 1_000)), TTL_S_MAX);
  const alert = defined({ title: content.title, body: content.body });
  return {
    token: to,
    ...(isEmpty(alert) ? {} : { notification: alert }),
    ...(content.data === undefined || isEmpty(content.data) ? {} : { data: pushDataTexts(content.data) }),
    android: android(content, ttl, !isEmpty(alert)),
    apns: apns(content, Math.floor(now / 1_000) + ttl, !isEmpty(alert)),
    webpush: { headers: { TTL: String(ttl) } },
  };
}

function android({ badge, sound, collapseKey }: PushContent, ttl: number, hasAlert: boolean) {
  const notification = hasAlert ? defined({ sound, notification_count: badge }) : {};
  return {
    priority: 'HIGH',
    ttl: `${ttl}s`,
    ...defined({ collapse_key: collapseKey }),
    ...(isEmpty(notification) ? {} : { notification }),
  };
}

/**
 * Apple throttles data-only pushes that are not marked as such. FCM makes the alert from the common notification, and refuses a
 * payload without `aps` and an empty `aps`.
 */
function apns({ badge, sound, collapseKey }: PushContent, expiration: number, hasAlert: boolean) {
  const own = defined({ badge, sound });
  const isSilent = !hasAlert && isEmpty(own);
  const aps = isSilent ? { 'content-available': 1 } : own;
  return {
    headers: {
      'apns-push-type': isSilent ? 'background' : 'alert',
      'apns-priority': isSilent ? '5' : '10',
      'apns-expiration': String(expiration),
      ...(collapseKey === undefined ? {} : { 'apns-collapse-id': collapseId(collapseKey) }),
    },
    ...(isEmpty(aps) ? {} : { payload: { aps } }),
  };
}

function defined(
  record: Readonly<Record<string, string | number | undefined>>,
): Record<string, string | number> {
  const present = Object.entries(record).filter(
    (entry): entry is [string, string | number] => entry[1] !== undefined,
  );
  return Object.fromEntries(present);
}

function isEmpty(record: object): boolean {
  return Object.keys(record).length === 0;
}
