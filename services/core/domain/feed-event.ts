/** Events that tenants are told of, with their descriptions. Other events of a message are only in its own history. */
export const FEED_EVENTS = {
  'message.scheduled': 'A message was accepted, and is to be sent at the time that its sender named.',
  'message.queued': 'A message was accepted, or the time of a scheduled one has come.',
  'message.sent': 'The provider accepted a message, or is known to have accepted it.',
  'message.deferred': 'A call to the provider failed, and there will be another one.',
  'message.failed_over':
    'A message goes on to the next provider account of its route: one has refused it, could not be called for too long, or did not report on it in time.',
  'message.delivered': 'The provider reported that a message was delivered.',
  'message.undelivered': 'The provider reported that a message was not delivered.',
  'message.failed': 'A message was given up after a call that failed, or as no provider was left for it.',
  'message.expired': 'A message was not sent within its lifetime.',
  'message.canceled': 'A message was canceled before it was sent.',
  'message.suppressed': "A message was not sent, as its recipient is on the tenant's suppression list.",
  'message.unknown': 'Nobody knows what became of a message: a call had no answer, or no receipt came.',
  'message.engagement':
    'The recipient did something with a message: opened, clicked, read, complained, unsubscribed.',
  'provider.active':
    'A provider account works: a send or a check of its credential has succeeded, or it was enabled.',
  'provider.invalid': "A provider refuses an account's credential. Its messages wait.",
  'provider.degraded': 'Calls to a provider account keep failing: they are held back.',
  'provider.recovered': 'Calls to a provider account succeed again.',
  'endpoint.failing': 'Calls to a webhook endpoint keep failing: events wait while it is tried now and then.',
  'endpoint.disabled':
    'A webhook endpoint is called no more: it failed for too long, or said that it is gone.',
  'suppression.added':
    'A recipient was put on the suppression list: by a member, a provider or the recipient.',
  'suppression.imported':
    'A member imported entries of the suppression list: one event for up to a thousand of them.',
  'suppression.removed': 'A recipient was taken off the suppression list before its entry expired.',
  'tenant.suspended': 'The tenant was suspended. Nothing is accepted and nothing sent.',
  'tenant.resumed': 'The tenant may send again.',
  'tenant.brake_applied':
    'Too many messages of a channel bounced, or too many recipients complained: the channel is slowed, or held.',
  'tenant.brake_lifted': 'A channel that was slowed or held goes on as before.',
  'limit.approaching':
    'The tenant has sent 80 % of the messages that it may send on this day (UTC). Told once a day.',
  'limit.reached':
    'The tenant has sent all messages that it may send on this day (UTC). Told once a day; what comes beyond is refused.',
} as const satisfies Readonly<Record<`${string}.${string}`, string>>;
export type FeedEventType = keyof typeof FEED_EVENTS;
export const FEED_EVENT_TYPES = Object.keys(FEED_EVENTS) as readonly FeedEventType[];

/** Events that webhook endpoints may get: those of feeds, and the test event. */
export const WEBHOOK_EVENTS = {
  ...FEED_EVENTS,
  'test.ping':
    'An admin tries a webhook endpoint out. It is sent for that alone, whatever the endpoint asks for, and is in no feed.',
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
