import type { LimitName } from './plan.ts';

/** The minimum and maximum value that a resource may set, inclusive. */
export type LimitBounds = { readonly min: number; readonly max: number };

/**
 * Bounds for the limits of plans and tenants' overrides. Every value except a rate is an integer that a JSON reader keeps exactly
 * (below 2^53) and that fits its column. Zero is allowed where "none" is meaningful.
 */
export const LIMIT_BOUNDS: Readonly<Record<LimitName, LimitBounds>> = {
  messagesPerDay: { min: 0, max: 1_000_000_000 },
  // The maximum that a key of its own may have.
  sendRequestsPerMinute: { min: 1, max: 60_000 },
  adminRequestsPerMinute: { min: 1, max: 60_000 },
  // A round grants a tenant eight messages times its weight; a larger weight would make the others wait.
  queueWeight: { min: 1, max: 100 },
  inFlightMax: { min: 1, max: 10_000 },
  backlogMax: { min: 1, max: 1_000_000_000 },
  providersPerChannelMax: { min: 0, max: 10_000 },
  webhookEndpointsMax: { min: 0, max: 10_000 },
  apiKeysMax: { min: 0, max: 10_000 },
  // A tenant has at least an owner.
  membersMax: { min: 1, max: 10_000 },
  batchMessagesMax: { min: 1, max: 1_000 },
  scheduleHorizonDays: { min: 0, max: 365 },
  // One partition per week and table: the longest retention of any tenant determines their number.
  retentionDays: { min: 1, max: 365 },
  // One in ten thousand is the finest rate that is compared; 1 never brakes.
  hardBounceRateMax: { min: 0.0001, max: 1 },
  complaintRateMax: { min: 0.0001, max: 1 },
};
