import { type AppError, validationFailed, type NamedLimit } from '#core/domain/fault/app-error.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import { backlogLimit, dailyLimit } from '#core/domain/tenant/mode-limits.ts';
import type { MessageId } from '#core/domain/storage/ids.ts';
import { addressKeyHex, type AddressKeyRoot } from '#core/domain/recipient/address-key.ts';
import { normalRecipient } from '#core/domain/recipient/normal-recipient.ts';
import { keptFrom, scheduleOf } from '#core/domain/message/schedule.ts';
import { smsSegments, type SmsEncoding } from '#core/domain/message/segments.ts';
import type { Warnings } from '#core/domain/fault/warning.ts';
import type { AcceptRow } from '#core/store/messages/acceptance.ts';
import type { KeyCaller } from '../auth/auth.ts';
import { withWarnings } from '../http/routes/request-warnings.ts';
import type { IdempotencyClaim } from '../http/routes/idempotency.ts';
import type { RequestFacts } from '../http/routes/route.ts';
import { routeColumns, type Routed } from './account-for.ts';
import { contentOf } from './message-content.ts';
import { expiryOf } from './message-expiry.ts';
import type { NewPlace } from './message-places.ts';
import { ofTestClock, type MessageClock } from './message-clock.ts';
import type { SendMessage } from './send-message-schema.ts';

/** The body of a 202. */
export type Accepted = {
  readonly id: MessageId;
  readonly status: 'queued' | 'scheduled';
  readonly channel: Channel;
  readonly to: string;
  readonly enqueuedAt: string;
  readonly scheduledAt?: string;
  readonly segments?: number;
  readonly encoding?: SmsEncoding;
  readonly test?: true;
};

const PRIORITY = { high: 0, normal: 1, bulk: 2 } as const;

/** What the api determines before the message is stored. */
export type Given = {
  readonly place: NewPlace;
  readonly routed: Routed;
  readonly clock: MessageClock;
  /** Warnings in the message's 202. */
  readonly warnings: Warnings;
  /** Derives the key of the recipient in the tenant's suppression list. */
  readonly addressKeys: AddressKeyRoot;
  /** Id of a request for several messages. */
  readonly batchId?: string;
};

/** Returns the start of the record's retention, for `MessagePlaces`; undefined where it starts now. */
export function recordKeptFrom(
  message: SendMessage,
  { tenant }: KeyCaller,
  { now, aheadMs }: MessageClock,
): number | undefined {
  const sendAt = sendAtOf(message);
  const at = sendAt === undefined ? undefined : sendAt - aheadMs;
  return keptFrom(at, now, tenant.limits.scheduleHorizonDays);
}

function sendAtOf({ sendAt }: SendMessage): number | undefined {
  return sendAt === undefined ? undefined : Date.parse(sendAt);
}

/**
 * Builds the row that stores a message, including its 202.
 * @throws AppError when its send time is too far ahead, or its expiry is not between that and the end of the record's
 * retention.
 */
export function newMessageRow(
  message: SendMessage,
  caller: KeyCaller,
  { place, routed, clock, warnings, addressKeys, batchId }: Given,
  claim: IdempotencyClaim | null,
  { id: requestId, traceparent }: Pick<RequestFacts, 'id' | 'traceparent'>,
): AcceptRow & { readonly response: Accepted } {
  const { tenant, key } = caller;
  const { limits } = tenant;
  const { now, enqueuedAt, aheadMs } = clock;
  const sms = message.channel === 'sms' ? smsSegments(message.body) : null;
  const test = key.mode === 'test';
  const address = normalRecipient(message.channel, message.to) ?? message.to;
  const sendAt = sendAtOf(message);
  const sendersNow = now + aheadMs;
  const schedule = scheduleOf(sendAt, sendersNow, limits.scheduleHorizonDays);
  if (schedule.kind === 'too_far') throw tooFar(limits.scheduleHorizonDays);
  const isScheduled = schedule.kind === 'scheduled';
  if (!isScheduled && schedule.isPast) {
    const text = `Lies in the past${ofTestClock(clock)}: the message is sent at once`;
    warnings.add({ field: 'sendAt', message: text });
  }
  const expiresAt = expiryOf(
    message,
    limits.retentionDays,
    isScheduled ? schedule.at : sendersNow,
    isScheduled,
    clock,
  );
  const { channel, to } = message;
  const queued = acceptedBody({ id: place.id, channel, to, test }, enqueuedAt, sms);
  const response: Accepted = isScheduled
    ? { ...queued, status: 'scheduled', scheduledAt: new Date(schedule.at).toISOString() }
    : queued;
  const { account_id, route_version, route_skipped } = routeColumns(routed);
  // Fields without a value are undefined instead of absent: building one object of a constant shape takes half the time.
  return {
    seq: place.seq,
    purge_on: place.purgeOn,
    id: place.id,
    tenant_id: tenant.id,
    api_key_id: key.id,
    channel: message.channel,
    recipient: message.to,
    address,
    address_key: addressKeyColumn(addressKeys, tenant.id, channel, address),
    sender: message.channel === 'sms' || message.channel === 'email' ? (message.from ?? null) : null,
    content: contentOf(message),
    external_id: message.externalId ?? null,
    category: message.category,
    priority: PRIORITY[message.priority],
    test,
    account_id,
    route_version,
    route_skipped,
    pinned_account_id: test ? null : (message.providerId ?? null),
    segments: sms?.segments ?? null,
    encoding: sms?.encoding ?? null,
    delivery_guarantee: message.deliveryGuarantee,
    content_retention: message.contentRetention,
    metadata: message.metadata ?? null,
    tags: message.tags ?? null,
    traceparent,
    request_id: requestId,
    batch_id: batchId,
    enqueued_at: enqueuedAt,
    expires_at: new Date(expiresAt - aheadMs).toISOString(),
    lifetime_ms: message.expiresAt === undefined && !isScheduled ? expiresAt - sendersNow : null,
    status: isScheduled ? 'scheduled' : undefined,
    // Set even if it seems to be past: this process's clock may be ahead. Clamped at 0: subtracting the lead of a test
    // clock from a time in the first years gives a year that ISO 8601 cannot write in four digits.
    send_at: sendAt === undefined ? undefined : new Date(Math.max(sendAt - aheadMs, 0)).toISOString(),
    scheduled_at: sendAt === undefined || aheadMs === 0 ? undefined : new Date(sendAt).toISOString(),
    retention_days: limits.retentionDays,
    rate_per_minute: sendsPerMinute(caller),
    messages_per_day: dailyLimit(limits, test).value,
    backlog_max: backlogLimit(limits, test).value,
    // Tests break this (mutant: idempotency-scope): one idempotency key makes one message.
    scope: claim?.scope.toString('hex') ?? null,
    fingerprint: claim?.fingerprint.toString('hex') ?? null,
    response: withWarnings(response, warnings),
  };
}

/** In the database's hex format for bytes. */
export function addressKeyColumn(...of: Parameters<typeof addressKeyHex>): string {
  return `\\x${addressKeyHex(...of)}`;
}

/** @param sms Null for other channels. */
export function acceptedBody(
  { id, channel, to, test }: Pick<Accepted, 'id' | 'channel' | 'to'> & { readonly test: boolean },
  enqueuedAt: string,
  sms: Pick<Required<Accepted>, 'segments' | 'encoding'> | null,
): Accepted {
  const body: Accepted = { id, status: 'queued', channel, to, enqueuedAt };
  const sized = sms === null ? body : { ...body, segments: sms.segments, encoding: sms.encoding };
  return test ? { ...sized, test } : sized;
}

export function sendsPerMinute({ tenant, key }: KeyCaller): number {
  return key.rateLimitRpm ?? tenant.limits.sendRequestsPerMinute;
}

/** Returns the limit of a key's sends, also for the text of a 429. */
export function sendRateLimit(caller: KeyCaller): NamedLimit {
  const name = caller.key.rateLimitRpm === null ? 'sendRequestsPerMinute' : 'rateLimitRpm';
  return { name, value: sendsPerMinute(caller) };
}

/** @param horizonDays the tenant's limit. */
export function tooFar(horizonDays: number): AppError {
  const message = `Must lie within ${horizonDays} days from now: limit 'scheduleHorizonDays'`;
  return validationFailed({ field: 'sendAt', rule: 'max', message });
}
