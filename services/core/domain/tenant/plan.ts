/**
 * The limits of a tenant. The names are the same in tables, resources and the API; every value is an integer, except
 * `RATE_LIMITS`.
 */
export type Limits = {
  /** Messages in one UTC day, over all channels. Replays, refused requests and test mode do not count. */
  readonly messagesPerDay: number;
  /** Send requests in any rolling minute; the default of a key without a limit of its own. */
  readonly sendRequestsPerMinute: number;
  /** Admin requests in any rolling minute, over all of a tenant's users. */
  readonly adminRequestsPerMinute: number;
  /** Weight relative to other waiting tenants in the workers' fair queue. */
  readonly queueWeight: number;
  /** Concurrent provider calls. */
  readonly inFlightMax: number;
  /** Messages accepted and not yet finished. */
  readonly backlogMax: number;
  /** Provider accounts of one channel, without deleted ones. */
  readonly providersPerChannelMax: number;
  readonly webhookEndpointsMax: number;
  /** Keys, without revoked and expired ones. */
  readonly apiKeysMax: number;
  /** Members, including invitations. */
  readonly membersMax: number;
  /** Messages in one batch request. */
  readonly batchMessagesMax: number;
  /** How far ahead a message may be scheduled, in days. */
  readonly scheduleHorizonDays: number;
  /** How long a message's record is kept, in days. */
  readonly retentionDays: number;
  /**
   * Maximum hard-bounce rate of a channel's final messages, measured over 1,000 or more, from 0.0001 to 1, with four decimals.
   * Above it the channel is slowed, at twice the rate held.
   */
  readonly hardBounceRateMax: number;
  /** Maximum complaint rate; otherwise like `hardBounceRateMax`. */
  readonly complaintRateMax: number;
};

/** Limits that are rates, with at most four decimals. */
export const RATE_LIMITS = ['hardBounceRateMax', 'complaintRateMax'] as const;
export type RateLimitName = (typeof RATE_LIMITS)[number];
export const isRateLimit = (name: LimitName): name is RateLimitName =>
  (RATE_LIMITS as readonly string[]).includes(name);

export type LimitName = keyof Limits;
export type PlanName = 'free' | 'starter' | 'growth' | 'enterprise';
export type LimitSource = 'plan' | 'override' | 'default';

export const BUILT_IN_PLANS: Readonly<Record<PlanName, Limits>> = {
  free: {
    messagesPerDay: 10_000,
    sendRequestsPerMinute: 6_000,
    adminRequestsPerMinute: 60,
    queueWeight: 1,
    inFlightMax: 50,
    backlogMax: 100_000,
    providersPerChannelMax: 20,
    webhookEndpointsMax: 20,
    apiKeysMax: 20,
    membersMax: 20,
    batchMessagesMax: 100,
    scheduleHorizonDays: 7,
    retentionDays: 30,
    hardBounceRateMax: 0.1,
    complaintRateMax: 0.003,
  },
  starter: {
    messagesPerDay: 50_000,
    sendRequestsPerMinute: 6_000,
    adminRequestsPerMinute: 120,
    queueWeight: 2,
    inFlightMax: 100,
    backlogMax: 500_000,
    providersPerChannelMax: 50,
    webhookEndpointsMax: 50,
    apiKeysMax: 50,
    membersMax: 50,
    batchMessagesMax: 200,
    scheduleHorizonDays: 30,
    retentionDays: 30,
    hardBounceRateMax: 0.1,
    complaintRateMax: 0.003,
  },
  growth: {
    messagesPerDay: 500_000,
    sendRequestsPerMinute: 30_000,
    adminRequestsPerMinute: 300,
    queueWeight: 5,
    inFlightMax: 250,
    backlogMax: 2_000_000,
    providersPerChannelMax: 100,
    webhookEndpointsMax: 100,
    apiKeysMax: 100,
    membersMax: 100,
    batchMessagesMax: 500,
    scheduleHorizonDays: 90,
    retentionDays: 60,
    hardBounceRateMax: 0.1,
    complaintRateMax: 0.003,
  },
  enterprise: {
    messagesPerDay: 5_000_000,
    sendRequestsPerMinute: 60_000,
    adminRequestsPerMinute: 600,
    queueWeight: 20,
    inFlightMax: 1_000,
    backlogMax: 10_000_000,
    providersPerChannelMax: 1_000,
    webhookEndpointsMax: 1_000,
    apiKeysMax: 1_000,
    membersMax: 1_000,
    batchMessagesMax: 500,
    scheduleHorizonDays: 365,
    retentionDays: 90,
    hardBounceRateMax: 0.1,
    complaintRateMax: 0.003,
  },
};

/** The limits of a tenant without a plan and overrides. */
export const FREE: Limits = BUILT_IN_PLANS.free;

export const PLAN_NAMES = Object.keys(BUILT_IN_PLANS) as PlanName[];
export const LIMIT_NAMES = Object.keys(FREE) as LimitName[];

/** Limits as read from a row or a resource: names may be missing or unknown, and values invalid. */
export type StatedLimits = { readonly [name: string]: unknown };

/** Returns the limits in force: an override takes precedence over the plan, the plan over the built-in default, the free plan. */
export function effectiveLimits(plan?: StatedLimits | null, overrides?: StatedLimits | null): Limits {
  return Object.fromEntries(
    LIMIT_NAMES.map((name) => [name, stated(overrides, name) ?? stated(plan, name) ?? FREE[name]]),
  ) as Limits;
}

/** Returns where each effective limit comes from. */
export function limitSources(
  plan?: StatedLimits | null,
  overrides?: StatedLimits | null,
): Readonly<Record<LimitName, LimitSource>> {
  const source = (name: LimitName): LimitSource => {
    if (stated(overrides, name) !== undefined) return 'override';
    return stated(plan, name) === undefined ? 'default' : 'plan';
  };
  return Object.fromEntries(LIMIT_NAMES.map((name) => [name, source(name)])) as Record<
    LimitName,
    LimitSource
  >;
}

function stated(limits: StatedLimits | null | undefined, name: LimitName): number | undefined {
  const value = limits?.[name];
  if (isRateLimit(name)) return rateOf(value);
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** Parses a rate. Resources state it as text, because a fraction may change on its way through a cluster. */
function rateOf(value: unknown): number | undefined {
  const rate = typeof value === 'string' && /^[01](\.\d{1,4})?$/.test(value) ? Number(value) : value;
  return typeof rate === 'number' && rate > 0 && rate <= 1 ? rate : undefined;
}
