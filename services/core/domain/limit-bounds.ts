import type { LimitName } from './plan.ts';

/** The smallest and the largest value that a resource may set, both allowed. */
export type LimitBounds = { readonly min: number; readonly max: number };

/**
 * What a plan or a tenant's override may set at all, whatever the plan. Every value but a rate is a whole number that a JSON
 * reader keeps exactly (below 2^53) and that the column it ends in can hold. Zero is allowed where "none" means something.
 */
export const LIMIT_BOUNDS: Readonly<Record<LimitName, LimitBounds>> = {
  messagesPerDay: { min: 0, max: 1_000_000_000 },
  // The most that a key of its own may have.
  sendRequestsPerMinute: { min: 1, max: 60_000 },
  adminRequestsPerMinute: { min: 1, max: 60_000 },
  // A round grants a tenant eight messages times its weight: more than this would make the others wait for it.
  queueWeight: { min: 1, max: 100 },
  inFlightMax: { min: 1, max: 10_000 },
  backlogMax: { min: 1, max: 1_000_000_000 },
  providersPerChannelMax: { min: 0, max: 10_000 },
  webhookEndpointsMax: { min: 0, max: 10_000 },
  apiKeysMax: { min: 0, max: 10_000 },
  // A tenant has an owner.
  membersMax: { min: 1, max: 10_000 },
  batchMessagesMax: { min: 1, max: 1_000 },
  scheduleHorizonDays: { min: 0, max: 365 },
  // One partition a week and table: the longest retention of any tenant decides how many there are.
  retentionDays: { min: 1, max: 365 },
  // One in ten thousand is the finest that is compared; 1 never brakes.
  hardBounceRateMax: { min: 0.0001, max: 1 },
  complaintRateMax: { min: 0.0001, max: 1 },
};
