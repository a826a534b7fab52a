import { z } from 'zod';
import { LIMIT_BOUNDS } from '#core/domain/tenant/limit-bounds.ts';
import {
  isRateLimit,
  LIMIT_NAMES,
  type LimitName,
  type Limits,
  type RateLimitName,
} from '#core/domain/tenant/plan.ts';
import { rate, wholeNumber } from './fields.ts';

const DESCRIPTIONS: Readonly<Record<LimitName, string>> = {
  messagesPerDay:
    'Messages that may be accepted in one UTC day, over all channels. Replayed requests, refused requests and test mode do not count.',
  sendRequestsPerMinute:
    'Send requests in any rolling minute; the default of a service key that has no limit of its own.',
  adminRequestsPerMinute: "Admin requests in any rolling minute, over all of the tenant's members.",
  queueWeight: 'Share of the workers relative to other tenants that have messages waiting.',
  inFlightMax: 'Calls to providers that may be under way at the same time.',
  backlogMax:
    'Messages that may be accepted and not yet finished. Beyond it sends are refused until some finish.',
  providersPerChannelMax: 'Provider accounts on one channel, deleted ones not counted.',
  webhookEndpointsMax: 'Webhook endpoints, deleted ones not counted.',
  apiKeysMax: 'Service keys, revoked and expired ones not counted.',
  membersMax: 'Members, invitations counted.',
  batchMessagesMax: 'Messages in one batch request.',
  scheduleHorizonDays: 'How many days ahead a message may be scheduled.',
  retentionDays:
    'How many days the record of a message is kept. With fewer than 8, the answer to a request with an idempotency key, which contains the recipient, may be kept for longer than the record: for 7 to 14 days.',
  hardBounceRateMax:
    'Part of a channel\'s final messages, measured over 1,000 or more, that may have bounced for good. Above it, the channel is slowed to a tenth; from twice the rate on, it is held. Text from "0.0001" to "1"; "1" disables the brake.',
  complaintRateMax:
    'Part of a channel\'s final messages, measured over 1,000 or more, whose recipients may have complained. Above it, the channel is slowed to a tenth; from twice the rate on, it is held. Text from "0.0001" to "1"; "1" disables the brake.',
};

type LimitField<Name extends LimitName> = Name extends RateLimitName ? z.ZodString : z.ZodInt;
type LimitFields = { [Name in LimitName]: LimitField<Name> };

const FIELDS = Object.fromEntries(
  LIMIT_NAMES.map((name) => {
    const description = DESCRIPTIONS[name];
    return [
      name,
      isRateLimit(name) ? rate(description) : wholeNumber({ description, ...LIMIT_BOUNDS[name] }),
    ];
  }),
) as LimitFields;

/** All limits, each required. */
export const AllLimits = z.object(FIELDS);

/** Some limits, each optional. */
export const SomeLimits = z.object(
  Object.fromEntries(LIMIT_NAMES.map((name) => [name, FIELDS[name].exactOptional()])) as {
    [Name in LimitName]: z.ZodExactOptional<LimitField<Name>>;
  },
);

/** Returns limits in the format of a resource, where a rate is text. */
export function writtenLimits(limits: Limits): z.output<typeof AllLimits> {
  const { hardBounceRateMax, complaintRateMax, ...numbers } = limits;
  return {
    ...numbers,
    hardBounceRateMax: String(hardBounceRateMax),
    complaintRateMax: String(complaintRateMax),
  };
}
