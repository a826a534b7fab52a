import { z } from 'zod';
import { LIMIT_BOUNDS } from '#core/domain/limit-bounds.ts';
import { LIMIT_NAMES, type LimitName } from '#core/domain/plan.ts';
import { wholeNumber } from './fields.ts';

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
  retentionDays: 'How many days the record of a message is kept.',
};

type LimitFields = Record<LimitName, z.ZodInt>;

const FIELDS = Object.fromEntries(
  LIMIT_NAMES.map((name) => [name, wholeNumber({ description: DESCRIPTIONS[name], ...LIMIT_BOUNDS[name] })]),
) as LimitFields;

/** All limits, each required. */
export const AllLimits = z.object(FIELDS);

/** Some limits, each optional. */
export const SomeLimits = z.object(
  Object.fromEntries(LIMIT_NAMES.map((name) => [name, FIELDS[name].exactOptional()])) as {
    [Name in LimitName]: z.ZodExactOptional<z.ZodInt>;
  },
);
