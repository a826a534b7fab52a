import { AppError, validationFailed, type NamedLimit } from '#core/domain/app-error.ts';
import type { Channel } from '#core/domain/channel.ts';
import type { EmailContent, PushContent, SmsContent, WhatsappContent } from '#core/domain/content.ts';
import type { MessageId } from '#core/domain/ids.ts';
import { normalAddress, parseMailbox, type Mailbox } from '#core/domain/mailbox.ts';
import { normalNumber } from '#core/domain/phone-number.ts';
import { mediaTypeOf } from '#core/domain/whatsapp-media.ts';
import { smsSegments, type SmsEncoding } from '#core/domain/segments.ts';
import type { AcceptRow } from '#core/store/acceptance.ts';
import type { KeyCaller } from '../auth/auth.ts';
import type { IdempotencyClaim } from '../http/idempotency.ts';
import type { RequestFacts } from '../http/routes-kit.ts';
import type { NewPlace } from './message-places.ts';
import type { SendMessage } from './send-message-schema.ts';

/** The body of a 202. */
export type Accepted = {
  readonly id: MessageId;
  readonly status: 'queued';
  readonly channel: Channel;
  readonly to: string;
  readonly enqueuedAt: string;
  readonly segments?: number;
  readonly encoding?: SmsEncoding;
  readonly test?: true;
};

const DAY_MS = 86_400_000;
const LIFETIME_MS = { transactional: DAY_MS, marketing: DAY_MS, otp: 600_000 } as const;
const PRIORITY = { high: 0, normal: 1, bulk: 2 } as const;

/** What the api determines before the message is stored. */
export type Given = {
  readonly place: NewPlace;
  /** The account that is to send it. */
  readonly accountId: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
};

/**
 * Makes the row that stores a message, its 202 included.
 * @throws AppError where its expiry does not lie between now and the end of the record.
 */
export function newMessageRow(
  message: SendMessage,
  caller: KeyCaller,
  { place, accountId, now }: Given,
  claim: IdempotencyClaim | null,
  { id: requestId, traceparent }: Pick<RequestFacts, 'id' | 'traceparent'>,
): AcceptRow & { readonly response: Accepted } {
  const { tenant, key } = caller;
  const { limits } = tenant;
  const enqueuedAt = new Date(now).toISOString();
  const sms = message.channel === 'sms' ? smsSegments(message.body) : null;
  const test = key.mode === 'test';
  const expiresAt = expiryOf(message, limits.retentionDays, now);
  const response: Accepted = {
    id: place.id,
    status: 'queued',
    channel: message.channel,
    to: message.to,
    enqueuedAt,
    ...sms,
    ...(test ? { test } : {}),
  };
  return {
    seq: place.seq,
    purge_on: place.purgeOn,
    id: place.id,
    tenant_id: tenant.id,
    api_key_id: key.id,
    channel: message.channel,
    recipient: message.to,
    address: normalRecipient(message),
    sender: message.channel === 'sms' || message.channel === 'email' ? (message.from ?? null) : null,
    content: contentOf(message),
    external_id: message.externalId ?? null,
    category: message.category,
    priority: PRIORITY[message.priority],
    test,
    account_id: accountId,
    pinned_account_id: test ? null : (message.providerId ?? null),
    segments: sms?.segments ?? null,
    encoding: sms?.encoding ?? null,
    delivery_guarantee: message.deliveryGuarantee,
    content_retention: message.contentRetention,
    metadata: message.metadata ?? null,
    tags: message.tags ?? null,
    traceparent,
    request_id: requestId,
    enqueued_at: enqueuedAt,
    expires_at: new Date(expiresAt).toISOString(),
    lifetime_ms: message.expiresAt === undefined ? expiresAt - now : null,
    retention_days: limits.retentionDays,
    rate_per_minute: sendsPerMinute(caller),
    messages_per_day: limits.messagesPerDay,
    backlog_max: limits.backlogMax,
    // Tests break this (mutant: idempotency-scope): one idempotency key makes one message.
    scope: claim?.scope.toString('hex') ?? null,
    fingerprint: claim?.fingerprint.toString('hex') ?? null,
    response,
  };
}

export function sendsPerMinute({ tenant, key }: KeyCaller): number {
  return key.rateLimitRpm ?? tenant.limits.sendRequestsPerMinute;
}

/** What a sender reached, where a 429 says so. */
export function sendRateLimit(caller: KeyCaller): NamedLimit {
  const name = caller.key.rateLimitRpm === null ? 'sendRequestsPerMinute' : 'rateLimitRpm';
  return { name, value: sendsPerMinute(caller) };
}

function expiryOf(message: SendMessage, retentionDays: number, now: number): number {
  const { expiresAt, ttlSeconds, category } = message;
  const field = expiresAt === undefined ? 'ttlSeconds' : 'expiresAt';
  const latest = now + retentionDays * DAY_MS;
  const expiry =
    expiresAt !== undefined
      ? Date.parse(expiresAt)
      : ttlSeconds !== undefined
        ? now + ttlSeconds * 1000
        : Math.min(now + LIFETIME_MS[category], latest);
  if (expiry <= now) throw validationFailed({ field, rule: 'min', message: 'Must lie in the future' });
  if (expiry > latest) {
    const message = `Must lie within the ${retentionDays} days that records are kept`;
    throw validationFailed({ field, rule: 'max', message });
  }
  return expiry;
}

function normalRecipient(message: SendMessage): string {
  switch (message.channel) {
    case 'sms':
    case 'whatsapp':
      return normalNumber(message.to) ?? message.to;
    case 'email':
      return normalAddress(message.to) ?? message.to;
    case 'push':
      return message.to.trim();
  }
}

function contentOf(message: SendMessage): SmsContent | EmailContent | PushContent | WhatsappContent {
  switch (message.channel) {
    case 'sms':
      return { body: message.body };
    case 'email':
      return emailContent(message);
    case 'push': {
      const { title, body, data, badge, sound, collapseKey } = message;
      return definedFields({ title, body, data, badge, sound, collapseKey });
    }
    case 'whatsapp': {
      const { body, template, media } = message;
      if (template !== undefined) return { kind: 'template', ...template };
      if (media !== undefined) return { kind: 'media', ...media, type: mediaTypeOf(media) };
      return { kind: 'text', body: body as string };
    }
  }
}

function emailContent(message: Extract<SendMessage, { channel: 'email' }>): EmailContent {
  const { bodyHtml, bodyText, body, headers, attachments } = message;
  // With none of the three the text is empty.
  const text = bodyText ?? (bodyHtml === undefined ? (body ?? '') : undefined);
  return {
    from: mailboxOf(message.from),
    subject: message.subject,
    ...definedFields({ text, html: bodyHtml, headers: headersOf(headers), attachments }),
    ...(message.replyTo === undefined ? {} : { replyTo: mailboxOf(message.replyTo) }),
  };
}

/** A header of no value is one that was not sent. */
function headersOf(headers: Readonly<Record<string, string | null>> | undefined): EmailContent['headers'] {
  if (headers === undefined) return undefined;
  const given = Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== null);
  return Object.fromEntries(given);
}

function mailboxOf(text: string): Mailbox {
  const mailbox = parseMailbox(text);
  if (mailbox === undefined) throw new AppError('internal_error');
  return mailbox;
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Leaves out what is undefined. */
function definedFields<T extends object>(fields: T): Defined<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Defined<T>;
}
