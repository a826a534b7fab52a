/** Events that tenants are told of, with their descriptions. Other events of a message are only in its own history. */
export const FEED_EVENTS = {
  'message.scheduled': 'A message was accepted and is scheduled for the time that its sender set.',
  'message.queued': 'A message was accepted, or a scheduled message reached its time.',
  'message.sent': 'The provider accepted a message, or is known to have accepted it.',
  'message.deferred': 'A call to the provider failed, and another call follows.',
  'message.failed_over':
    'A message moves to the next provider account of its route: an account refused it, could not be called for too long, or did not report on it in time.',
  'message.delivered': 'The provider reported that a message was delivered.',
  'message.undelivered': 'The provider reported that a message was not delivered.',
  'message.failed': 'A message was given up after a failed call, or because no provider was left for it.',
  'message.expired': 'A message was not sent within its lifetime.',
  'message.canceled': 'A message was canceled before it was sent.',
  'message.suppressed': "A message was not sent because its recipient is on the tenant's suppression list.",
  'message.unknown':
    'The result of a message is unknown: a provider call got no answer, or no receipt arrived.',
  'message.engagement':
    'A provider reported that the recipient opened, clicked or read a message, complained about it, or unsubscribed.',
  'provider.active':
    'A provider account works: a send or a check of its credential succeeded, or the account was enabled.',
  'provider.invalid': "A provider refuses an account's credential. The account's messages wait.",
  'provider.degraded': 'Calls to a provider account keep failing and are held back.',
  'provider.recovered': 'Calls to a provider account succeed again.',
  'endpoint.failing':
    'Calls to a webhook endpoint keep failing: its events wait while single calls try it again.',
  'endpoint.disabled':
    'A webhook endpoint is no longer called: it failed for too long, or answered that it is gone.',
  'suppression.added': 'A member, a provider or the recipient added a recipient to the suppression list.',
  'suppression.imported':
    'A member imported entries into the suppression list: one event for up to a thousand entries.',
  'suppression.removed': 'A recipient was removed from the suppression list before its entry expired.',
  'tenant.suspended': 'The tenant was suspended. No messages are accepted or sent.',
  'tenant.resumed': 'The tenant may send again.',
  'tenant.brake_applied':
    'Too many messages of a channel bounced, or too many recipients complained: the channel is slowed or held.',
  'tenant.brake_lifted': 'A channel that was slowed or held sends as before.',
  'limit.approaching':
    'The tenant has sent 80 % of the messages that it may send on this day (UTC). Sent once a day.',
  'limit.reached':
    'The tenant has sent all messages that it may send on this day (UTC). Sent once a day; further messages are refused.',
} as const satisfies Readonly<Record<`${string}.${string}`, string>>;
export type FeedEventType = keyof typeof FEED_EVENTS;
export const FEED_EVENT_TYPES = Object.keys(FEED_EVENTS) as readonly FeedEventType[];

/** Events that webhook endpoints may get: those of feeds, and the test event. */
export const WEBHOOK_EVENTS = {
  ...FEED_EVENTS,
  'test.ping':
    "An admin tests a webhook endpoint. Sent only for such a test, regardless of the endpoint's filters, and in no feed.",
} as const;
export type WebhookEventType = keyof typeof WEBHOOK_EVENTS;
export const WEBHOOK_EVENT_TYPES = Object.keys(WEBHOOK_EVENTS) as readonly WebhookEventType[];

/** Each prefix stands for all types that begin with it. */
export const FEED_EVENT_PREFIXES = [
  'message.*',
  'provider.*',
  'endpoint.*',
  'suppression.*',
  'tenant.*',
  'limit.*',
] as const;
export type FeedEventFilter = FeedEventType | (typeof FEED_EVENT_PREFIXES)[number];
